CREATE STREAM temperature (location_id BIGINT, room STRING, value DOUBLE, floor INT, ts TIMESTAMP)
  WITH (connector = 'files', format = 'parquet', path = 'data/temperature', time = 'ts');
CREATE STREAM humidity (location_id BIGINT, room STRING, value DOUBLE, floor INT, ts TIMESTAMP)
  WITH (connector = 'files', format = 'parquet', path = 'data/humidity', time = 'ts', max_delay = '2 seconds');
