-- Text and several columns are hashed, and compared by value after the join; a number of another type is converted.
CREATE QUERY rooms AS SELECT a.ts FROM temperature a, humidity b WHERE a.room = b.room WINDOW 5 MINUTES;
CREATE QUERY places AS SELECT a.ts FROM temperature a, humidity b
  WHERE b.floor = a.floor AND a.room = b.room WINDOW 5 MINUTES;
CREATE QUERY mixed AS SELECT a.ts FROM temperature a, humidity b WHERE a.floor = b.location_id WINDOW 5 MINUTES;
