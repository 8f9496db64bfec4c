"""One shard: NumPy and Arrow, no clock, no I/O, no Spark. ``shard.py`` is the way in."""
