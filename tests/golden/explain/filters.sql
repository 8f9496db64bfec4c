-- What every query asks of a stream runs before the join; the rest after it.
CREATE QUERY hot AS SELECT a.location_id FROM temperature a, humidity b
  WHERE a.location_id = b.location_id AND a.value > 30 AND b.floor = 1 WINDOW 1 MINUTE;
CREATE QUERY hot_and_wet AS SELECT a.location_id FROM temperature a, humidity b
  WHERE a.location_id = b.location_id AND b.value > 70 AND a.value > 30 WINDOW 1 MINUTE;
CREATE QUERY hotter_than_wet AS SELECT a.location_id FROM temperature a, humidity b
  WHERE a.location_id = b.location_id AND a.value > 30 AND a.value > b.value + 1 WINDOW 1 MINUTE;
