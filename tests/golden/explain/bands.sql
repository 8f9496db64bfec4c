-- Three windows of one join: one group, three bands; the same select list is one class.
CREATE QUERY minute AS SELECT a.value AS t, b.value AS h FROM temperature a, humidity b
  WHERE a.location_id = b.location_id WINDOW 1 MINUTE;
CREATE QUERY hour AS SELECT x.value AS t, y.value AS h FROM temperature x, humidity y
  WHERE x.location_id = y.location_id WINDOW 1 HOUR;
CREATE QUERY also_hour AS SELECT y.value AS h FROM humidity y JOIN temperature x ON y.location_id = x.location_id
  WINDOW 60 MINUTES;
CREATE QUERY at_once AS SELECT a.value AS t, b.value AS h FROM temperature a, humidity b
  WHERE a.location_id = b.location_id WINDOW 0 SECONDS;
