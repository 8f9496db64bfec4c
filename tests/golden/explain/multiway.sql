-- Joins of more than two streams: a common key, different keys, comparisons, a cross join; shares, orders, copies.
SET shards = 6;
CREATE STREAM pressure (location_id BIGINT, room STRING, value DOUBLE, floor INT, ts TIMESTAMP)
  WITH (connector = 'generator', rate = '100', keys = '50', time = 'ts');
CREATE QUERY common AS SELECT a.room FROM temperature a, humidity b, pressure c
  WHERE a.location_id = b.location_id AND b.location_id = c.location_id WINDOW 1 MINUTE;
CREATE QUERY other_order AS SELECT a.room FROM pressure c, temperature a, humidity b
  WHERE a.location_id = c.location_id AND c.location_id = b.location_id WINDOW 10 SECONDS;
CREATE QUERY chain AS SELECT a.value FROM temperature a, humidity b, pressure c
  WHERE a.room = b.room AND b.floor = c.floor AND a.value < c.value WINDOW 1 MINUTE;
CREATE QUERY every AS SELECT a.value FROM temperature a, humidity b, pressure c WINDOW 1 SECOND;
CREATE QUERY near AS SELECT a.value FROM temperature a, humidity b
  WHERE b.value BETWEEN a.value - 1 AND a.value + 1 WINDOW 1 MINUTE;
CREATE QUERY apart AS SELECT a.value FROM temperature a, humidity b, pressure c
  WHERE ABS(a.value - b.value) <= 0.5 AND NOT (b.floor - c.floor < 1) AND a.room > c.room WINDOW 1 MINUTE;
