CREATE STREAM temperature
  (location_id BIGINT, value DOUBLE, name STRING, ts TIMESTAMP, day DATE, price DECIMAL(10, 2), ok BOOLEAN, n INT)
  WITH (connector = 'files', path = 'data/temperature', time = 'ts');
CREATE STREAM humidity (location_id BIGINT, value DOUBLE, ts TIMESTAMP)
  WITH (connector = 'files', path = 'data/humidity', time = 'ts');
