"""A host without Spark: packs rows, runs shards in memory, keeps segments in a dict. What the oracle tests drive."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
from orders import drawn_facts, drawn_orders

from headrace.engine.budget import ProbeBudget
from headrace.engine.combining import Combiner
from headrace.engine.dispatching import Dispatcher, Pace
from headrace.engine.events import (
    CacheSegment,
    DropSegment,
    Effect,
    EmitCount,
    EmitPanes,
    EmitRows,
    ForgetSegment,
    KeepSegment,
    OrderingChosen,
    RejectRows,
    TimesReached,
)
from headrace.engine.histories import Points
from headrace.engine.packing import ORDER, ORDER_SHIFT, Envelope, Kind, Packer
from headrace.engine.progressing import Idle
from headrace.engine.segments import unpack_batch
from headrace.engine.shard import Shard, ShardOptions
from headrace.model import Catalog
from headrace.plan.hypercube import Grid
from headrace.plan.queries import Query
from headrace.plan.sharing import SharedPlan, share
from headrace.plan.skew import SeenKeys


@dataclass
class Store:
    """A shard's kept segments; ``derived`` always rebuilds, as with a cold cache."""

    blobs: dict[str, pa.Buffer] = field(default_factory=dict)

    def stored(self, name: str) -> pa.Buffer:
        return self.blobs[name]

    def derived(self, _name: str, rebuild: Callable[[], pa.Buffer]) -> pa.Buffer:
        return rebuild()


class LocalHost:
    """Shards in this process. ``restoring``: every step starts from manifests and segments alone, as on Spark.
    Manifests are the last step's, whatever was restored since: what restoring makes anew, the step after it keeps."""

    def __init__(
        self,
        catalog: Catalog,
        queries: Iterable[Query],
        *,
        shards: int = 1,
        options: ShardOptions | None = None,
        restoring: bool = False,
        probes: int | None = None,
        backlog_rows: int | None = None,
        seed: int | None = None,
        grids: Mapping[str, Grid] | None = None,
        filter_order: Sequence[bool] = (False,),
        tree: str | None = None,
    ) -> None:
        self._tree = tree
        self.filter_order = filter_order
        """For one micro-batch after the other, round and round: whether tuples do not wait for other streams."""
        self.idle: Idle = frozenset()
        """Sources that nobody waits for; may be changed between arrivals."""
        self._delivered = 0
        self._draw = None if seed is None else random.Random(seed)
        self._draw_facts = None if seed is None else random.Random(seed)
        self.grids = dict(grids or {})
        """By group; may be changed between arrivals."""
        self.newest_us = -(2**63)
        """The newest event time that has arrived in any stream."""
        self.heavy_seen: list[dict[tuple[str, int, int], SeenKeys]] = []
        """What each source task of the last micro-batch saw."""
        self.probes = probes
        self.backlog_rows = backlog_rows
        self.options = options or ShardOptions()
        self.stores = [Store() for _ in range(shards)]
        self.results: dict[str, list[list[dict[str, object]]]] = {}
        self.counts: dict[str, int] = {}
        self.rejected: list[dict[str, object]] = []
        self.evaluated: dict[str, list[int]] = {}
        """For each query with groups, its evaluation times so far."""
        self.restoring = restoring
        self._order = 0
        self.combined = Store()
        """The segments of what the shards' aggregates meet in."""
        if shards > 1:
            self.options = replace(self.options, forwards=True)
        self._set_plan(share(catalog, tuple(queries), self._tree))
        self._draw_orders()
        self.combiner = Combiner(self.plan, self._points)
        self.shards = [Shard(self.plan, self.options) for _ in self.stores]
        self._manifests = self._told()

    def _told(self) -> tuple[list[bytes], bytes]:
        """What shards, and what their aggregates meet in, are restored from."""
        return [shard.manifest() for shard in self.shards], self.combiner.manifest()

    @property
    def _points(self) -> Points:
        return Points(self.options.reevaluate_us, self.options.is_eager)

    def _set_plan(self, plan: SharedPlan) -> None:
        self.plan = plan
        for query in plan.queries:
            self.results.setdefault(query, [])
            self.counts.setdefault(query, 0)

    def _draw_orders(self) -> None:
        if self._draw is not None:
            self.options = drawn_orders(self.options, self.plan, self._draw)

    def change(self, catalog: Catalog, queries: Iterable[Query]) -> None:
        """A restart with another set of queries."""
        self._set_plan(share(catalog, tuple(queries), self._tree))
        self._restore()

    def _restore(self) -> None:
        self._draw_orders()
        manifests, combined = self._manifests
        self.combiner = Combiner.restore(self.plan, self._points, combined, self.combined)
        pairs = zip(manifests, self.stores, strict=True)
        self.shards = [Shard.restore(self.plan, self.options, told, store) for told, store in pairs]

    def arrive(self, batches: Mapping[str, pa.RecordBatch], *, ordered: bool = True, at_us: int = 0) -> None:
        """One micro-batch: at most one chunk a stream."""
        self._order += 1
        envelopes: list[Envelope] = []
        self.heavy_seen = []
        for name, batch in batches.items():
            if ordered:
                batch = batch.append_column(ORDER, pa.array([self._order << ORDER_SHIFT] * batch.num_rows, pa.int64()))
            stream = self.plan.catalog.get(name)
            known = self.shards[0].progress.known(stream.name)
            packer = Packer(self.plan, stream, len(self.stores), grids=self.grids, known=known)
            envelopes += packer.pack(batch, at_us)
            self.heavy_seen.append(packer.heavy_seen)
        self.newest_us = max([self.newest_us, *(one.newest_us for one in envelopes if one.kind is Kind.HEARTBEAT)])
        self.deliver(envelopes)

    def go_on(self) -> None:
        """A micro-batch without input."""
        self.deliver([])

    @property
    def is_behind(self) -> bool:
        """Whether work waits for another micro-batch."""
        return any(shard.is_behind for shard in self.shards)

    def end(self) -> None:
        self.deliver([Envelope(shard, Kind.END) for shard in range(len(self.stores))])

    def deliver(self, envelopes: list[Envelope]) -> None:
        for one in envelopes:
            if one.kind is Kind.DEAD:
                self.rejected += unpack_batch(one.payload).to_pylist()
        if self.restoring:
            self._restore()
        emitted: dict[str, list[dict[str, object]]] = {}
        sent: list[EmitPanes | TimesReached] = []
        pace = Pace(drawn_facts(self.plan, self._draw_facts))
        chosen = self._chosen()
        for index, shard in enumerate(self.shards):
            mine = [one for one in envelopes if one.shard == index and one.kind not in (Kind.DEAD, Kind.TALLY)]
            budget = ProbeBudget(self.probes, self.backlog_rows)
            for effect in shard.step([*(one.event(self.plan) for one in mine), chosen], budget, pace):
                if isinstance(effect, EmitPanes | TimesReached):
                    sent.append(effect)
                else:
                    self._apply(effect, self.stores[index], emitted)
            shard.validate()
        self._check_turns()
        for effect in self.combiner.step(sent):
            self._apply(effect, self.combined, emitted)
        self._manifests = self._told()
        self._note_times()
        for query, rows in emitted.items():
            self.results[query].append(rows)

    def _check_turns(self) -> None:
        """All shards have taken the same turns, and weigh what is left alike."""
        first, *others = (shard.dispatcher for shard in self.shards)
        for other in others if first is not None else ():
            assert other is not None
            assert other.turns == first.turns
            assert other.waiting_tuples() == first.waiting_tuples()
            assert _held_probes(other) == _held_probes(first)

    def _chosen(self) -> OrderingChosen:
        """How this micro-batch keeps results in order."""
        is_early = self.filter_order[self._delivered % len(self.filter_order)]
        self._delivered += 1
        early = frozenset(group.signature for group in self.plan.groups) if is_early else frozenset[str]()
        return OrderingChosen(early, self.idle)

    def _note_times(self) -> None:
        """When each query with groups was evaluated."""
        for operator in self.combiner.operators.values() if len(self.shards) > 1 else self.shards[0].folds():
            for final in operator.folding.finals:
                now_us = operator.evaluated_us.get(final.window_us)
                for query, identity in zip(final.queries, final.identities, strict=True):
                    if now_us is None or identity not in operator.begun:
                        continue
                    times = self.evaluated.setdefault(query, [])
                    times += [now_us] if not times or times[-1] != now_us else []

    def _apply(self, effect: Effect, store: Store, emitted: dict[str, list[dict[str, object]]]) -> None:
        match effect:
            case EmitRows(queries, batch, arrived):
                assert sum(count for _, count in arrived) == batch.num_rows
                for query in queries:
                    emitted.setdefault(query, []).extend(batch.to_pylist())
            case EmitCount(queries, rows, arrived):
                assert sum(count for _, count in arrived) == rows
                for query in queries:
                    self.counts[query] += rows
            case RejectRows(stream, reason, batch):
                self.rejected += [{"stream": stream, "reason": reason, "row": row} for row in batch.to_pylist()]
            case KeepSegment(name, blob):
                assert name not in store.blobs
                store.blobs[name] = blob
            case DropSegment(name):
                del store.blobs[name]
            case CacheSegment() | ForgetSegment():
                pass

    def rows(self, query: str) -> list[dict[str, object]]:
        """Everything a query got, in the order it came."""
        return [row for rows in self.results[query] for row in rows]


def _held_probes(dispatcher: Dispatcher) -> dict[str, int]:
    return {name: probes for name, (probes, _) in dispatcher.held().items()}
