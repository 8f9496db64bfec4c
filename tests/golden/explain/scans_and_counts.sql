-- Queries over one stream share a scan of it; the sink count makes no rows.
CREATE QUERY warm AS SELECT ts, value * 1.8 + 32 AS fahrenheit FROM temperature WHERE value > 20;
CREATE QUERY raw AS SELECT * FROM humidity;
CREATE QUERY tally AS SELECT ts FROM humidity WHERE value > 70 INTO (connector = 'count');
CREATE QUERY pairs AS SELECT a.ts FROM temperature a, humidity b
  WHERE a.location_id = b.location_id WINDOW 1 DAY INTO (connector = 'count');
