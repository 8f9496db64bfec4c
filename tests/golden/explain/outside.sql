CREATE STREAM clicks (user_id BIGINT, page STRING, ts TIMESTAMP)
  WITH (connector = 'kafka', servers = 'one:9092,two:9092', topic = 'clicks', max_delay = '5 s');
CREATE STREAM ticks (value BIGINT, timestamp TIMESTAMP) WITH (connector = 'spark', format = 'rate');
CREATE QUERY pairs AS SELECT a.user_id, b.page FROM clicks a, clicks b WHERE a.user_id = b.user_id WINDOW 10 s
  INTO (connector = 'kafka', servers = 'one:9092', key_column = 'user_id');
CREATE QUERY every AS SELECT a.value, b.page FROM ticks a, clicks b WHERE a.value = b.user_id WINDOW 1 s
  INTO (connector = 'spark', format = 'delta', path = 'tables/{query}', option.txnAppId = '{checkpoint}/{query}',
        option.txnVersion = '{micro_batch}');
