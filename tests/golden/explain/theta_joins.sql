-- No equality: a grid of cells, each pair in one of them.
SET join_method = 'eager';
CREATE QUERY warmer AS SELECT a.value AS t, b.value AS h FROM temperature a, humidity b
  WHERE a.value > b.value AND a.floor = 1 WINDOW 1 MINUTE;
CREATE QUERY every_pair AS SELECT a.room FROM temperature a, humidity b WINDOW 1 SECOND;
CREATE QUERY by_room AS SELECT a.room FROM temperature a, humidity b WHERE a.room = b.room WINDOW 1 SECOND;
