-- How joins are scheduled is the same for all groups, and does not concern a scan.
SET policy = 'swf';
SET budget = '400 ms';
SET block = '100 ms';
CREATE QUERY small AS SELECT a.room FROM temperature a, humidity b WHERE a.room = b.room WINDOW 1 SECOND;
CREATE QUERY large AS SELECT a.room FROM temperature a, humidity b WHERE a.room = b.room WINDOW 1 HOUR;
CREATE QUERY cold AS SELECT room FROM temperature WHERE value < 0;
