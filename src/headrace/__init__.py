"""Many continuous SQL queries with sliding-window joins over shared streams, as one Spark streaming query."""

__version__ = "0.1.0"
