-- What deploy/compose.yaml runs: two generated streams, and what they give as records of a Kafka topic.
SET shards = 2;
CREATE STREAM temperature (location_id BIGINT, value DOUBLE, ts TIMESTAMP)
  WITH (connector = 'generator', rate = '100', keys = '500', low = '10', high = '40');
CREATE STREAM humidity (location_id BIGINT, value DOUBLE, ts TIMESTAMP)
  WITH (connector = 'generator', rate = '100', keys = '500', low = '20', high = '90');
CREATE QUERY hot_and_wet AS
SELECT a.location_id, a.value AS celsius, b.value AS percent, a.ts
FROM temperature a, humidity b
WHERE a.location_id = b.location_id AND a.value > 30 AND b.value > 70
WINDOW 1 MINUTE
INTO (connector = 'kafka', servers = 'kafka:9092', topic = 'alerts', key_column = 'location_id');
