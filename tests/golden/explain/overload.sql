-- Joins whose probes may be left out: a tree that is given or chosen, its paths, and what may be probed.
SET service_rate = 2500;
CREATE STREAM pressure (location_id BIGINT, room STRING, value DOUBLE, floor INT, ts TIMESTAMP)
  WITH (connector = 'generator', rate = '100', keys = '50', time = 'ts');
SET plan = '((temperature humidity) pressure)';
CREATE QUERY adapting AS SELECT a.room FROM temperature a FRESHNESS 2 MINUTES, humidity b, pressure c
  WHERE a.room = b.room AND b.room = c.room WINDOW 1 MINUTE ON OVERLOAD ADAPT;
CREATE QUERY pair AS SELECT a.room FROM temperature a, humidity b WHERE a.room = b.room WINDOW 100 ROWS ON OVERLOAD ADAPT;
CREATE QUERY deferring AS SELECT a.room FROM temperature a, humidity b WHERE a.room = b.room WINDOW 1 MINUTE
  ON OVERLOAD DEFER;
CREATE QUERY whole AS SELECT a.room FROM temperature a, humidity b, pressure c
  WHERE a.room = b.room AND b.room = c.room WINDOW 30 SECONDS;
