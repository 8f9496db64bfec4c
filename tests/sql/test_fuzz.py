"""Whatever is written, only a SqlError comes out, and its place is in the text."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from headrace.errors import SqlError
from headrace.sql import Script, read_script

STREAMS = """CREATE STREAM temperature (location_id BIGINT, value DOUBLE, name STRING, ts TIMESTAMP, d DATE)
  WITH (connector = 'files', path = 'data/temperature', time = 'ts');
CREATE STREAM humidity (location_id BIGINT, value DOUBLE, ts TIMESTAMP) WITH (connector = 'generator');
"""
CATALOG = read_script(STREAMS).catalog

WORDS = [
    "SELECT", "FROM", "WHERE", "WINDOW", "INTO", "CREATE", "STREAM", "QUERY", "AS", "WITH", "SET", "EXPLAIN",
    "DROP", "JOIN", "ON", "LEFT", "CROSS", "INNER", "NATURAL", "USING", "AND", "OR", "NOT", "IN", "LIKE", "ILIKE",
    "BETWEEN", "IS", "NULL", "TRUE", "FALSE", "CASE", "WHEN", "THEN", "ELSE", "END", "CAST", "TRY_CAST", "EXTRACT",
    "INTERVAL", "TIMESTAMP", "DATE", "DECIMAL", "BIGINT", "INT", "DOUBLE", "STRING", "BOOLEAN", "ESCAPE",
    "DISTINCT", "GROUP", "BY", "ORDER", "HAVING", "LIMIT", "OFFSET", "UNION", "ALL", "EXCEPT", "OVER", "PARTITION",
    "ROWS", "RANGE", "FRESHNESS", "OVERLOAD", "ANY", "EXISTS", "ARRAY", "STRUCT", "MAP", "VALUES", "LATERAL",
    "UNNEST", "PIVOT", "TABLESAMPLE", "QUALIFY", "FILTER", "WITHIN", "FOR", "OF", "LOCK", "AT", "TIME", "ZONE",
    "COLLATE", "DIV", "XOR", "SIMILAR", "TO", "OVERLAPS", "RLIKE", "GLOB", "ISNULL", "NOTNULL", "SOME", "KEY",
    "FETCH", "FIRST", "NEXT", "ONLY", "TOP", "RECURSIVE", "INSERT", "UPDATE", "DELETE", "MERGE", "CALL", "SHOW",
    "USE", "COPY", "BEGIN", "COMMIT", "IF", "CONCAT", "COALESCE", "UPPER", "SUBSTRING", "TRIM", "YEAR",
    "DATE_TRUNC", "MOD", "COUNT", "MAX", "second", "minutes", "hour", "days", "rows", "a", "b", "temperature",
    "humidity", "a.value", "b.value", "a.location_id", "b.location_id", "location_id", "value", "name", "ts", "d",
    "shards", "connector", "files", "generator", "path", "format", "[ROWS 5]", "[RANGE 1 s]",
]  # fmt: skip
MARKS = [
    *"()[]{}.,;=<>+-*/%!|&^~?:@#$\\",
    "<=", ">=", "<>", "!=", "||", "::", "->", "->>", "=>", ":=", "<=>", "..", "**", "--\n", "/* c */", "'text'", "''",
    '"quoted"', "`tick`", "0", "1", "1.5", ".5", "1e3", "99999999999999999999", "'2026-01-01'", "'5'", "'5 seconds'",
    "'", '"', "`", "/*", "\n", "\t", "é", "²", "٣", "\x00", "\u2028", "😀",
]  # fmt: skip
SOUP = st.lists(st.sampled_from([*WORDS, *MARKS]), max_size=25).map(" ".join)
LEAVES = [
    "a.value", "b.value", "a.location_id", "name", "ts", "a.ts", "d", "1", "-2", "1.5", "2e3", "'x'", "'2026-01-01'",
    "NULL", "TRUE", '"q"', "INTERVAL '5' SECOND", "*", "(", ")",
]  # fmt: skip
OPERATORS = ["=", "<>", "<", "+", "-", "*", "/", "%", "||", "AND", "OR", "LIKE", "IS", "IN", "BETWEEN", "::"]
NAMES = [
    "UPPER",
    "ABS",
    "CONCAT",
    "IF",
    "LEFT",
    "CEIL",
    "DATE_TRUNC",
    "YEAR",
    "CAST",
    "EXTRACT",
    "SUBSTRING",
    "FOO",
    "COUNT",
]
TYPES = ["INT", "DECIMAL(5,2)", "STRING", "DATE", "FOO", "TIMESTAMP"]
EXPRESSIONS = st.recursive(
    st.sampled_from(LEAVES),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(OPERATORS), inner).map(" ".join),
        st.tuples(st.sampled_from(["NOT", "-", "+", "("]), inner).map(" ".join),
        st.tuples(st.sampled_from(NAMES), st.lists(inner, max_size=3)).map(lambda x: f"{x[0]}({', '.join(x[1])})"),
        st.tuples(inner, inner, inner).map(lambda x: f"CASE WHEN {x[0]} THEN {x[1]} ELSE {x[2]} END"),
        st.tuples(inner, inner).map(lambda x: f"{x[0]} IN ({x[1]}, 1)"),
        st.tuples(inner, inner).map(lambda x: f"{x[0]} NOT BETWEEN {x[1]} AND {x[0]}"),
        st.tuples(inner, st.sampled_from(TYPES)).map(lambda x: f"CAST({x[0]} AS {x[1]})"),
    ),
    max_leaves=8,
)


def read_or_refuse(text: str) -> Script | None:
    """The script, or None if it was refused as it should be."""
    try:
        return read_script(text, CATALOG)
    except SqlError as error:
        refused = error
    line = (text.splitlines() or [""])[refused.place.line - 1]
    assert 1 <= refused.place.column <= max(len(line), 1)
    assert refused.place.column + refused.place.width - 1 <= max(len(line), 1)
    assert refused.hint, refused.message
    assert str(refused)
    return None


@settings(max_examples=600, deadline=None)
@given(SOUP)
@example("")
@example(";;")
@example("-- only a comment")
def test_word_soup_is_read_or_refused_with_a_place(text: str) -> None:
    read_or_refuse(text)


@settings(max_examples=600, deadline=None)
@given(SOUP)
def test_word_soup_behind_a_good_query_is_read_or_refused(text: str) -> None:
    read_or_refuse("SELECT a.ts FROM temperature a, humidity b WHERE a.location_id = b.location_id " + text)


@settings(max_examples=600, deadline=None)
@given(EXPRESSIONS, EXPRESSIONS)
def test_any_expression_is_read_or_refused(output: str, condition: str) -> None:
    read_or_refuse(f"SELECT {output} FROM temperature a, humidity b WHERE {condition} AND TRUE WINDOW 1 MINUTE")


AGGREGATES = st.recursive(
    st.sampled_from([*LEAVES, "COUNT(*)", "MAX(a.value)", "COUNT(DISTINCT name)", "a.value + 1", "DISTINCT ts"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(OPERATORS), inner).map(" ".join),
        st.tuples(st.sampled_from(["COUNT", "SUM", "AVG", "MIN", "MAX", "ABS"]), inner).map(
            lambda x: f"{x[0]}({x[1]})"
        ),
        st.tuples(inner, inner).map(lambda x: f"{x[0]} FILTER (WHERE {x[1]})"),
    ),
    max_leaves=5,
)
KEYS = st.lists(st.one_of(st.sampled_from(["1", "2", "x", "a.value", "name", "a.value + 1", "()", "("]), AGGREGATES))


@settings(max_examples=600, deadline=None)
@given(AGGREGATES, KEYS, AGGREGATES)
def test_aggregates_are_read_or_refused(output: str, keys: list[str], having: str) -> None:
    streams = "FROM temperature a, humidity b"
    read_or_refuse(f"SELECT {output}, name {streams} GROUP BY {', '.join(keys)} HAVING {having} WINDOW 1 MINUTE")
    read_or_refuse(f"SELECT {output} AS x, 1 AS y {streams} HAVING {having} = x WINDOW 1 MINUTE")


WINDOW_PARTS = st.sampled_from([
    "[", "[", "]", "]", "RANGE", "RANGE", "ROWS", "ROWS", "TUPLES", "WINDOW", "5", "1", "0", "-", ".", "1.5", "1e3",
    "(", ")", ",", "'5 seconds'", "SECONDS", "minutes", "AS", "a", "b", "`rows`", "humidity", "JOIN", "ON", "WHERE",
])  # fmt: skip
WINDOW_SOUP = st.lists(WINDOW_PARTS, max_size=8).map(" ".join)
BRACKETS = st.one_of(st.sampled_from(["", "[ROWS 5]", "[RANGE 5 s]", "[RANGE '5 s'] [ROWS 5]", "[ROWS]"]), WINDOW_SOUP)
CLAUSES = st.one_of(st.sampled_from(["", "", "WINDOW 1 MINUTE", "WINDOW 5 ROWS", "WINDOW 5"]), WINDOW_SOUP)


@settings(max_examples=600, deadline=None)
@given(BRACKETS, BRACKETS, CLAUSES)
def test_windows_are_read_or_refused(first: str, second: str, last: str) -> None:
    script = read_or_refuse(f"SELECT a.ts FROM temperature {first} a, humidity b {second} WHERE TRUE {last}")
    assert script is None or all(len(query.windows) == len(query.sources) for query in script.queries)


FROM_PARTS = st.sampled_from([
    ",", ",", "JOIN", "JOIN", "CROSS JOIN", "INNER JOIN", "LEFT JOIN", "humidity", "temperature c", "humidity d",
    "temperature e [ROWS 5]", "humidity AS f", "ON a.value < c.value", "ON TRUE", "ON a.ts = d.ts", "ON", "(", ")",
    "USING (ts)", "[RANGE 1 s]",
])  # fmt: skip


@settings(max_examples=600, deadline=None)
@given(st.lists(FROM_PARTS, max_size=10).map(" ".join))
@example(", humidity b, temperature c JOIN humidity d ON a.ts = d.ts")
def test_chains_of_joins_are_read_or_refused(streams: str) -> None:
    script = read_or_refuse(f"SELECT a.ts FROM temperature a {streams} WHERE a.value > 1 WINDOW 1 MINUTE")
    assert script is None or all(len(query.windows) == len(query.sources) for query in script.queries)


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    read_or_refuse(text)


@settings(max_examples=300, deadline=None)
@given(SOUP)
def test_any_stream_options_are_read_or_refused(text: str) -> None:
    read_or_refuse(f"CREATE STREAM s (ts TIMESTAMP, k INT) WITH (connector = 'files', path = {text})")


def test_brackets_a_thousand_deep_are_refused() -> None:
    assert read_or_refuse("SELECT " + "(" * 1000 + "1" + ")" * 1000 + " FROM temperature") is None


def test_a_sum_of_a_thousand_terms_is_refused() -> None:
    assert read_or_refuse("SELECT " + " + ".join(["value"] * 1000) + " FROM temperature") is None


def test_a_thousand_conditions_are_read() -> None:
    conditions = " OR ".join(f"value = {number}" for number in range(1000))
    script = read_or_refuse(f"SELECT * FROM temperature WHERE {conditions}")
    assert script is not None
    assert len(script.queries[0].conditions) == 1
