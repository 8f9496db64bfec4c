"""How many results a multi-way join has, by DuckDB: what the engine's algorithms must find."""

from __future__ import annotations

import duckdb
import pyarrow as pa

from headrace.lab.multijoin_runs import Workload


def duckdb_count(workload: Workload) -> int:
    """How many results the measured tuples have, as DuckDB counts them."""
    since_us = workload.filled_units * workload.unit_us
    oldest_us = since_us - round(max(one.window for one in workload.streams) * workload.unit_us)
    with duckdb.connect(config={"threads": 1}) as connection:
        for name, table in zip(workload.names, workload.tuples, strict=True):
            connection.register(f"{name}_all", _with_numbers(table))
            connection.execute(f"CREATE TABLE {name} AS SELECT k, us FROM {name}_all WHERE us >= {oldest_us}")
        (row,) = connection.execute(_count_sql(workload, since_us)).fetchall()
    return int(row[0])


def _with_numbers(table: pa.Table) -> pa.Table:
    return pa.table({"k": table.column("k"), "us": table.column("ts").cast(pa.int64())})


def _count_sql(workload: Workload, since_us: int) -> str:
    names = workload.names
    newest = f"greatest({', '.join(f'{name}.us' for name in names)})"
    joins = " ".join(f"JOIN {name} ON {names[0]}.k = {name}.k" for name in names[1:])
    windows = " AND ".join(
        f"{name}.us >= {newest} - {round(facts.window * workload.unit_us)}"
        for name, facts in zip(names, workload.streams, strict=True)
    )
    return f"SELECT count(*) FROM {names[0]} {joins} WHERE {newest} >= {since_us} AND {windows}"
