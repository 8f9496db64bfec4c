"""`make bench`: Headrace, Spark's own stream-stream joins and Spark's pass-through ceiling on the same Parquet input.

inputs      the workloads, the Parquet they are written to, and DuckDB's answers
contenders  the three ways to run them, each in a process of its own
measure     starts that process, follows it and samples its memory
report      ratios, targets, tables and the picture, from stored numbers only
bench       the order of things and the command line
"""
