"""Where queries that come over the API may write: below the output directory, and to brokers that are named already.

Whoever may add a query should not be able to write wherever the service's user may. Owns :class:`SinkPlaces`, which
refuses a query for its INTO before anything is made of it. A list of what is known to be harmless, not of what is not:

    parquet     path below the output directory, not inside another query's
    spark       a format that writes to its path and nowhere else, path as above and nobody's; no options of Hadoop's
    kafka       brokers, and options for them, that the program's streams and queries have

``headrace serve --allow-any-sink`` does without. Cost: the new queries' options, and a look at a few directories.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.model import Options, Stream
from headrace.plan.connectors import PASSED, SINKS
from headrace.plan.queries import Query
from headrace.spark.formats import PATH_FORMATS
from headrace.spark.staging import is_claimed

NOWHERE = frozenset(("noop", "console"))
"""Formats of Spark that write to no path."""
ALLOW = "--allow-any-sink"
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_PLACE = re.compile(r"\.|(path|location|dir|directory|url|uri)$", re.IGNORECASE)
"""Options of Spark's that may name another place: those of Hadoop have dots."""


class SinkRefusedError(HeadraceError):
    """A query that would write where queries of the API may not."""

    def __init__(self, query: str, reason: str) -> None:
        super().__init__(
            f"query {query} {reason}: over the API this is refused. Choose another sink, or have the service started "
            f"with {ALLOW}"
        )
        self.query = query


@dataclass(frozen=True, slots=True)
class SinkPlaces:
    """The directories of a run; ``check`` refuses what is outside."""

    out: Path
    checkpoint: Path

    def check(
        self, new: Iterable[Query], known: Sequence[Query], streams: Sequence[Stream], taken: Iterable[Path]
    ) -> None:
        """Refuses the first of some new queries that may not write where it would. ``taken``: where others do."""
        others = [one.resolve() for one in taken]
        named = [dict(one) for one in (*(stream.options for stream in streams), *(query.into for query in known))]
        for query in new:
            into = dict(query.into)
            connector = into.get("connector", "parquet")
            if connector == "kafka":
                _check_brokers(query, [one for one in named if one.get("connector") == "kafka"])
            elif connector == "spark":
                self._check_format(query, into, others)
            elif "path" in into:
                self._check_path(query, into["path"])

    def _check_format(self, query: Query, into: dict[str, str], others: Sequence[Path]) -> None:
        name = into["format"].lower()
        if name not in PATH_FORMATS | NOWHERE:
            raise SinkRefusedError(query.name, f"writes as {into['format']}, which may write anywhere")
        odd = [option for option in SINKS["spark"].passed(query.into) if _PLACE.search(option)]
        if odd:
            raise SinkRefusedError(query.name, f"has the option {odd[0]}, which may name another place to write")
        if name in NOWHERE and "path" not in into:
            return
        if "path" not in into:
            raise SinkRefusedError(query.name, f"writes as {into['format']} without a path")
        place = self._check_path(query, into["path"])
        if is_claimed(place) or any(place in (one, *one.parents) for one in others):
            raise SinkRefusedError(query.name, f"writes to {place}, where other results are")

    def _check_path(self, query: Query, text: str) -> Path:
        """The directory that a path names, if it is below the output directory and in nobody's."""
        place = Path(text.replace("{query}", query.name)).resolve()
        out = self.out.resolve()
        if _SCHEME.match(text) or out not in place.parents:
            raise SinkRefusedError(query.name, f"writes to {text}, which is not below {self.out}")
        above = [one for one in place.parents if out in one.parents]
        top = place.relative_to(out).parts[0]
        kept = self.checkpoint.resolve()
        if top.startswith(("_", ".")) or kept in (place, *place.parents) or place in kept.parents:
            raise SinkRefusedError(query.name, f"writes to {text}, which is the pipeline's own")
        if any(is_claimed(one) for one in above):
            raise SinkRefusedError(query.name, f"writes to {text}, inside other results")
        return place


def _check_brokers(query: Query, named: Sequence[dict[str, str]]) -> None:
    """Refuses brokers, or options for them, that nobody named before."""
    servers = _servers(query.into)
    mine = [one for one in named if _servers(tuple(one.items())) == servers]
    if not mine:
        raise SinkRefusedError(query.name, f"writes to the brokers {servers}, which the program does not name")
    known = {pair for one in mine for pair in one.items()}
    for name, value in query.into:
        if name.startswith(PASSED) and (name, value) not in known:
            raise SinkRefusedError(query.name, f"has the option {name}, which the program does not give to {servers}")


def _servers(into: Options) -> str:
    """The brokers, as a text without blanks."""
    return re.sub(r"\s", "", dict(into)["servers"])
