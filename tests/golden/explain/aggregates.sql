-- Aggregates over a join and over one stream, under a budget; two queries that differ only in their windows.
SET budget = '400 ms';
SET strategy = 'chain';
SET fairness = 'aging';
SET queue_memory = '64 MiB';
CREATE QUERY loud AS SELECT a.location_id, MAX(a.value) AS most, COUNT(*) AS pairs FROM temperature a, humidity b
  WHERE a.location_id = b.location_id GROUP BY a.location_id HAVING COUNT(*) > 3 WINDOW 1 MINUTE;
CREATE QUERY louder AS SELECT a.location_id, MAX(a.value) AS most, COUNT(*) AS pairs FROM temperature a, humidity b
  WHERE a.location_id = b.location_id GROUP BY a.location_id HAVING COUNT(*) > 3 WINDOW 10 MINUTES;
CREATE QUERY plain AS SELECT a.value FROM temperature a, humidity b WHERE a.location_id = b.location_id WINDOW 1 MINUTE;
CREATE QUERY low AS SELECT MIN(value) AS low FROM temperature WHERE value > 3 WINDOW 10 SECONDS;
