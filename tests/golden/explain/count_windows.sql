-- Windows of rows: a group of their own beside the windows of time; one side of each is a third.
CREATE QUERY last_ten AS SELECT a.value AS t, b.value AS h FROM temperature a, humidity b
  WHERE a.location_id = b.location_id WINDOW 10 ROWS;
CREATE QUERY last_one AS SELECT a.value AS t, b.value AS h FROM temperature a [ROWS 1], humidity b [ROWS 1]
  WHERE a.location_id = b.location_id;
CREATE QUERY last_minute AS SELECT a.value AS t FROM temperature a, humidity b
  WHERE a.location_id = b.location_id WINDOW 1 MINUTE;
CREATE QUERY last_five_and_a_minute AS SELECT a.value AS t FROM humidity b [ROWS 5], temperature a
  WHERE a.location_id = b.location_id WINDOW 1 MINUTE;
