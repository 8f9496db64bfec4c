-- Windows of each stream: they share with windows that are the same for both.
CREATE QUERY both AS SELECT a.value AS t FROM temperature a, humidity b
  WHERE a.location_id = b.location_id WINDOW 30 SECONDS;
CREATE QUERY far_back_into_humidity AS SELECT a.value AS t FROM humidity b [RANGE 1 HOUR], temperature a
  WHERE a.location_id = b.location_id WINDOW 10 SECONDS;
CREATE QUERY far_back_into_temperature AS SELECT b.value AS h
  FROM temperature a [RANGE 1 HOUR], humidity b [RANGE 10 SECONDS] WHERE a.location_id = b.location_id;
