"""The only part that knows Spark."""
