"""Settings: the only place where defaults and the environment are read.

A setting is a field of :class:`Settings` with a default, a parser that refuses what is not allowed, and a line of
documentation. It is given, weakest first, by the default, the environment (``HEADRACE_<NAME>``), ``SET name = value``
in the SQL file, and the command line or ``Engine.start``. ``docs/settings.md`` is generated from here (``make docs``).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import Any

from headrace.errors import SettingError
from headrace.model import format_duration

JOIN_METHODS = ("hybrid", "index", "eager", "lazy", "general", "naive")
STRATEGY_NAMES = ("fifo", "chain", "path", "segment", "simplified", "threshold")
ALLOCATOR_NAMES = ("jaqpot", "grepp", "gh_wmscp", "jda", "jda_m", "exact", "pruned")
PROBE_CHOICES = ("oldest", "newest", "spread")
FAIRNESS_NAMES = ("static", "oldest", "aging")
ORDERING_NAMES = ("adaptive", "sync-filter", "filter-order")

DURATION_UNITS_US = {
    "us": 1, "usec": 1, "microsecond": 1,
    "ms": 1_000, "msec": 1_000, "millisecond": 1_000, "milli": 1_000,
    "s": 1_000_000, "sec": 1_000_000, "second": 1_000_000,
    "m": 60_000_000, "min": 60_000_000, "minute": 60_000_000,
    "h": 3_600_000_000, "hr": 3_600_000_000, "hour": 3_600_000_000,
    "d": 86_400_000_000, "day": 86_400_000_000,
}  # fmt: skip
"""Units of time in microseconds; a plural ``s`` and any case are accepted."""


_MICRO = str.maketrans({"\N{MICRO SIGN}": "u", "\N{GREEK SMALL LETTER MU}": "u"})
"""The sign for a millionth is on keyboards in two characters, and neither is on most."""


def unit_us(word: str) -> int | None:
    """Microseconds in a unit of time, in any case, singular or plural; None if it is not one.

    >>> unit_us("Mins"), unit_us("fortnight"), unit_us("\N{MICRO SIGN}s")
    (60000000, None, 1)
    """
    lower = word.lower().translate(_MICRO)
    return DURATION_UNITS_US.get(lower) or DURATION_UNITS_US.get(lower.removesuffix("s"))


def parse_duration(text: str) -> int:
    """Microseconds in a text like ``'2 seconds'`` or ``'500ms'``.

    >>> parse_duration("1.5 sec")
    1500000
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([^\W\d_]+)\s*", text)
    unit = unit_us(match.group(2)) if match else None
    if match is None or unit is None:
        raise SettingError(f"{text!r} is not a duration: write a number and a unit, such as '2 seconds' or '500 ms'")
    return round(float(match.group(1)) * unit)


def _whole(least: int, most: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not re.fullmatch(r"-?\d+", text.strip()) or not least <= int(text) <= most:
            raise SettingError(f"{text!r} is not allowed: write a whole number from {least} to {most}")
        return int(text)

    return parse


_BYTES = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}


def _bytes(text: str) -> int:
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", text)
    if match is None or match.group(2).lower() not in _BYTES:
        raise SettingError(f"{text!r} is not a size: write a number and a unit, such as '512 MiB'")
    return int(float(match.group(1)) * _BYTES[match.group(2).lower()])


def _some_bytes(text: str) -> int:
    if (size := _bytes(text)) < 1:
        raise SettingError(f"{text!r} is not allowed: write a size above nothing, such as '256 MiB'")
    return size


def _one_of(*allowed: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text.lower() not in allowed:
            raise SettingError(f"{text!r} is not allowed: write one of {', '.join(allowed)}")
        return text.lower()

    return parse


def _or_word(word: str, parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """What ``parse`` takes, or a word for nothing in particular."""

    def parse_either(text: str) -> Any:
        if text.strip().lower() == word:
            return None
        try:
            return parse(text)
        except SettingError as error:
            raise SettingError(f"{error}, or {word}") from None

    return parse_either


def _share(text: str) -> float:
    match = re.fullmatch(r"\s*(0?\.\d+|0|1(?:\.0*)?)\s*", text)
    if match is None:
        raise SettingError(f"{text!r} is not allowed: write a share from 0 to 1, such as 0.2")
    return float(match.group(1))


def _rate(text: str) -> float:
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*", text)
    if match is None or not float(match.group(1)):
        raise SettingError(f"{text!r} is not a rate: write a number of probes a second, such as 50000")
    return float(match.group(1))


CHEAPEST_TREE = "tree"
"""The plan that is a tree, whichever is the cheapest."""


def _tree_text(text: str) -> str:
    """A tree as far as it can be read without knowing the streams: every join is two parts in parentheses; or the word
    for any."""
    if text.strip().lower() == CHEAPEST_TREE:
        return CHEAPEST_TREE
    tokens = re.findall(r"[()]|[^\s()]+", text)
    opened = [token.count("(") - token.count(")") for token in tokens]
    depths = [sum(opened[: place + 1]) for place in range(len(opened))]
    if len(tokens) < 4 or tokens[0] != "(" or depths[-1] != 0 or min(depths[:-1]) < 1:
        raise SettingError(
            f"{text!r} is not a tree of joins: write two parts in parentheses, such as '((a b) c)', or tree"
        )
    return " ".join(text.split())


def ordering_by_query(text: str) -> tuple[str, dict[str, str]]:
    """An approach for all joins, and those for the joins of some queries, by name.

    >>> ordering_by_query("sync-filter, alarms = filter-order")
    ('sync-filter', {'alarms': 'filter-order'})
    """
    everywhere, by_query = "adaptive", {}
    for part in text.split(","):
        query, equals, name = (one.strip() for one in part.rpartition("="))
        if name.lower() not in ORDERING_NAMES or (equals and not query):
            raise SettingError(
                f"{part.strip()!r} is not allowed: write one of {', '.join(ORDERING_NAMES)}; for the joins of some "
                "queries, after a comma, such as 'adaptive, alarms = filter-order'"
            )
        if query:
            by_query[query.lower()] = name.lower()
        else:
            everywhere = name.lower()
    return everywhere, by_query


def _ordering(text: str) -> str:
    everywhere, by_query = ordering_by_query(text)
    return ", ".join([everywhere, *(f"{query} = {name}" for query, name in by_query.items())])


def _path(text: str) -> str:
    if not text.strip():
        raise SettingError("a path cannot be empty")
    return text


def parse_sink_name(text: str) -> str:
    """A shared sink's name, which is a directory's too.

    >>> parse_sink_name("alerts")
    'alerts'
    """
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", text):
        raise SettingError(f"{text!r} is not a name: write letters, digits and _, a letter first, such as 'alerts'")
    return text


def parse_packages(text: str) -> tuple[str, ...]:
    """Maven coordinates; ``none`` is none.

    >>> parse_packages("org.example:one_2.13:1.0, org.example:two:2.0"), parse_packages("none")
    (('org.example:one_2.13:1.0', 'org.example:two:2.0'), ())
    """
    if text.strip().lower() == "none":
        return ()
    names = tuple(one.strip() for one in text.split(","))
    if not all(re.fullmatch(r"[^\s:]+:[^\s:]+:[^\s:]+", one) for one in names):
        raise SettingError(f"{text!r} is no list of packages: write group:artifact:version, parted by commas, or none")
    return names


def _time_or_count(text: str, unit: str) -> tuple[int | None, int | None]:
    """A duration in microseconds, or a number of things (the unit may be left out); neither: it is not one of them."""
    match = re.fullmatch(rf"\s*(\d+)\s*(?:{unit}s?)?\s*", text, re.IGNORECASE)
    if match:
        return None, int(match.group(1))
    try:
        return parse_duration(text), None
    except SettingError:
        return None, None


@dataclass(frozen=True, slots=True)
class Budget:
    """What a micro-batch may spend: a time or a number of probes, one of them."""

    time_us: int | None = None
    probes: int | None = None

    def __str__(self) -> str:
        return f"{self.probes} probes" if self.time_us is None else format_duration(self.time_us)


def parse_budget(text: str) -> Budget | None:
    """A budget as written; ``none`` is none.

    >>> str(parse_budget("400 ms")), str(parse_budget("5000 probes")), parse_budget("none")
    ('400 milliseconds', '5000 probes', None)
    """
    if text.strip().lower() == "none":
        return None
    time_us, probes = _time_or_count(text, "probe")
    if not (time_us or probes):
        raise SettingError(f"{text!r} is not a budget: write a time, such as '400 ms', a number of probes, or none")
    return Budget(time_us, probes)


@dataclass(frozen=True, slots=True)
class BlockSize:
    """How much is scheduled together: a stretch of event time or a number of rows, one of them."""

    span_us: int | None = None
    rows: int | None = None

    def __str__(self) -> str:
        return f"{self.rows} rows" if self.span_us is None else format_duration(self.span_us)


def parse_block(text: str) -> BlockSize | None:
    """A block's size as written; ``none``: all that is released.

    >>> str(parse_block("1 row")), str(parse_block("100 ms"))
    ('1 rows', '100 milliseconds')
    """
    if text.strip().lower() == "none":
        return None
    span_us, rows = _time_or_count(text, "row")
    if not (span_us or rows):
        raise SettingError(f"{text!r} is no size of blocks: write a time, such as '100 ms', a number of rows, or none")
    return BlockSize(span_us, rows)


def _setting(default: Any, parse: Callable[[str], Any], text: str, show: Callable[[Any], str] = str) -> Any:
    return field(default=default, metadata={"parse": parse, "text": text, "show": show})


def _size(value: int) -> str:
    return f"{value / 2**20:g} MiB"


@dataclass(frozen=True, slots=True)
class Settings:
    """What a run can be told; every field is documented where it is declared."""

    shards: int = _setting(2, _whole(1, 4096), "how many shards the keys are split over; fixed for a checkpoint")
    trigger_us: int = _setting(
        0,
        parse_duration,
        "the time from one micro-batch's start to the next; 0 seconds: as soon as there is input",
        format_duration,
    )
    checkpoint: str | None = _setting(
        None, _path, "where offsets and state are kept; by default `_checkpoint` in the output directory", str
    )
    cache_bytes: int = _setting(
        2**30, _bytes, "memory-mapped segment files kept on each machine; beyond it the least recently used go", _size
    )
    cache_dir: str | None = _setting(
        None, _path, "where those files are; by default a directory under the system's", str
    )
    max_files_per_batch: int = _setting(
        1000, _whole(1, 10**6), "files of one stream in a micro-batch, unless the stream sets its own"
    )
    merge_fanout: int = _setting(4, _whole(2, 64), "segments of one size that are merged into one of the next")
    policy: str = _setting(
        "mqt",
        _one_of("lwo", "swf", "mqt"),
        "which scan comes next when a budget does not do for all: largest window only, smallest window first, "
        "maximum query throughput",
    )
    budget: Budget | None = _setting(  # noqa: RUF009 - a field, as the others
        None,
        parse_budget,
        "what a micro-batch may spend on joins and what follows them: a time, such as 400 ms, or a number of probes; "
        "what is left goes on in the next; by default everything is done at once",
    )
    backlog_limit: int = _setting(
        1_000_000,
        _whole(1, 10**12),
        "tuples that may wait for their turn; beyond it the budget is overrun, so that sources wait: nothing is lost",
    )
    strategy: str = _setting(
        "threshold",
        _one_of(*STRATEGY_NAMES),
        "which operator takes what waits before it when a budget does not do for all: fifo (the oldest), chain, path "
        "(least latency), segment (least memory), simplified (nearly as little), or threshold: path while queues are "
        "small, simplified while they are not",
    )
    fairness: str = _setting(
        "oldest",
        _one_of(*FAIRNESS_NAMES),
        "how a strategy is kept from leaving anyone waiting for ever: oldest (every micro-batch begins with the oldest "
        "tuple), aging (priorities grow with the wait), or static: it is not",
    )
    queue_memory_bytes: int = _setting(
        256 * 2**20,
        _some_bytes,
        "what the queues between operators may take, over all shards, where there is a budget; threshold keeps below "
        "it, and beyond it the budget is overrun, so that sources wait",
        _size,
    )
    block: BlockSize | None = _setting(  # noqa: RUF009 - likewise
        None,
        parse_block,
        "tuples that are scheduled together: a stretch of event time, such as 100 ms, or, on one shard, a number of "
        "rows; by default all that a micro-batch releases",
    )
    join_method: str = _setting(
        "hybrid",
        _one_of(*JOIN_METHODS),
        "how partners are found; the answers are the same: hybrid (an index where there is one, else a scan), index "
        "(a join that would scan is refused), or by scans alone, as eager, lazy, general or naive nested loops",
    )
    index_buckets: int | None = _setting(
        None,
        _or_word("auto", _whole(1, 10**6)),
        "into how many buckets the keys of a window's segment are put; auto: each key is its own",
        lambda value: "auto" if value is None else str(value),
    )
    reevaluate_us: int = _setting(
        0,
        parse_duration,
        "the stretch of event time whose tuples are joined together, and after which aggregates are evaluated (the "
        "papers' tau); 0 seconds: all that each micro-batch completes",
        format_duration,
    )
    evaluate: str = _setting(
        "batch",
        _one_of("batch", "eager"),
        "when aggregates are evaluated where reevaluate does not say how often: with each micro-batch, or eager, "
        "whenever a tuple comes or leaves; not both",
    )
    expire_us: int | None = _setting(
        None,
        _or_word("auto", parse_duration),
        "the stretch of event time after which tuples that left their windows are let go; 0 seconds: in each "
        "micro-batch; auto: as the windows and rates suggest",
        lambda value: "auto" if value is None else format_duration(value),
    )
    order_switch: float | None = _setting(
        0.2,
        _or_word("none", _share),
        "the share by which another join order must be cheaper, by what is measured, to be taken while running; none: "
        "orders stay as they are",
        lambda value: "none" if value is None else str(value),
    )
    ordering: str = _setting(
        "adaptive",
        _ordering,
        "how a join's results are kept in order over streams that lag each other: sync-filter (tuples wait for the "
        "other streams), filter-order (they are joined at once, results wait), or adaptive: as rates and costs "
        "suggest; for the joins of some queries: 'adaptive, alarms = filter-order'",
    )
    ordering_alpha: float = _setting(
        0.3,
        _share,
        "from which c|w|l1 l2 on (half of the time that joining takes) adaptive ordering joins tuples at once: "
        "response times are then better by at least alpha / (1 + alpha)",
    )
    hold_memory_bytes: int = _setting(
        64 * 2**20,
        _some_bytes,
        "what a shard's join may hold in memory of results that wait for other streams; what is more goes to the state "
        "store at once, nothing is lost",
        _size,
    )
    plan: str | None = _setting(
        None,
        _or_word("auto", _tree_text),
        "the tree of joins of queries over these streams, by name, such as '((a b) (c d))'; tree: for all queries over "
        "three streams or more, the cheapest by what is known of them; auto: only for those with ON OVERLOAD ADAPT",
        lambda value: "auto" if value is None else str(value),
    )
    allocator: str = _setting(
        "jaqpot",
        _one_of(*ALLOCATOR_NAMES),
        "who says which probes of such queries are made where not all can be: jaqpot (states in between are kept fresh,"
        " then the most productive paths), its parts grepp and gh_wmscp; or jda_m, jda (of one join), exact, pruned",
    )
    service_rate: float | None = _setting(
        None,
        _or_word("auto", _rate),
        "probes a second that all shards together make for them (the paper's mu); auto: what the budget allows by the "
        "cost of a probe as it is measured, everything where there is no budget",
        lambda value: "auto" if value is None else f"{value:g}",
    )
    probe_choice: str = _setting(
        "oldest",
        _one_of(*PROBE_CHOICES),
        "which tuples probe where fewer may than come: the oldest, the newest, or some spread over all",
    )
    reallocate: float = _setting(
        0.2,
        _share,
        "the share by which a rate, a productivity or a cost must move for probes to be allocated again",
    )
    retention: str = _setting(
        "window",
        _one_of("window", "count"),
        "when joined tuples in between are let go: with the first of their tuples that leaves its window, or count, as "
        "in the paper, when as many newer ones came as the windows would hold: then results may be older than windows, "
        "and joins of three streams or more can be kept fresh only where FRESHNESS is longer than the window",
    )
    compression: str = _setting(
        "snappy", _one_of("snappy", "zstd", "lz4", "none"), "codec of the Parquet files written"
    )
    shared_sink: str | None = _setting(
        None, parse_sink_name, "the shared sink of all queries without INTO; by default each has files of its own", str
    )
    master: str | None = _setting(
        None,
        _path,
        "the cluster to run on, as Spark writes it (spark://host:7077, yarn, ...), unless spark-submit says it; by "
        "default this machine",
        str,
    )
    packages: tuple[str, ...] | None = _setting(
        None,
        parse_packages,
        "Maven coordinates that Spark fetches jars by when it starts, parted by commas, or none; by default those that "
        "the connectors in use need",
        lambda value: ",".join(value) or "none",
    )
    jars: str | None = _setting(
        None,
        _path,
        "jars that are there already, instead of packages: a directory of them, or files parted by commas; nothing is "
        "fetched then",
        str,
    )
    console_rows: int = _setting(10, _whole(1, 1000), "rows of a micro-batch that the console sink prints")

    @staticmethod
    def names() -> tuple[str, ...]:
        """Every setting, as SET and the environment call it."""
        return tuple(_public(one.name) for one in fields(Settings))

    def with_text(self, name: str, text: str) -> Settings:
        """These settings with one given as text; refused with the allowed values if it is wrong."""
        wanted = name.lower()
        for one in fields(Settings):
            if _public(one.name) == wanted:
                try:
                    return replace(self, **{one.name: one.metadata["parse"](text)})
                except SettingError as error:
                    raise SettingError(f"setting {wanted}: {error}") from None
        raise SettingError(f"there is no setting {name}: the settings are {', '.join(Settings.names())}")


def _public(field_name: str) -> str:
    """``trigger_us`` is called ``trigger`` outside: there a duration carries its unit."""
    return field_name.removesuffix("_us").removesuffix("_bytes") if field_name != "cache_bytes" else "cache_memory"


def from_environment(environment: Mapping[str, str] | None = None) -> Settings:
    """The defaults, changed by ``HEADRACE_<NAME>`` variables."""
    settings = Settings()
    variables = os.environ if environment is None else environment
    for name in Settings.names():
        text = variables.get(f"HEADRACE_{name.upper()}")
        if text is not None:
            settings = settings.with_text(name, text)
    return settings


def describe() -> str:
    """The settings as a Markdown table: the text of ``docs/settings.md``."""
    rows = ["| setting | default | meaning |", "|---|---|---|"]
    for one in fields(Settings):
        assert one.default is not MISSING
        default = "" if one.default is None else one.metadata["show"](one.default)
        rows.append(f"| `{_public(one.name)}` | {default} | {one.metadata['text']} |")
    return "\n".join(rows) + "\n"
