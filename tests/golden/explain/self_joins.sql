-- One key: both sides are one input. Two keys: two inputs of one stream.
CREATE QUERY rising AS SELECT a.ts, b.ts AS later FROM temperature a, temperature b
  WHERE a.location_id = b.location_id AND a.value < b.value AND a.floor = 1 AND b.floor = 1 AND b.value > 20
  WINDOW 10 SECONDS;
CREATE QUERY crossed AS SELECT a.ts FROM temperature a, temperature b WHERE a.location_id = b.floor WINDOW 10 SECONDS;
