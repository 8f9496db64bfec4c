"""Paper 002's costs: the numbers it prints, what it says of Figures 2 and 3, and the model for any predicates."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import PlanError
from headrace.plan.costs import (
    CostGraph,
    JoinFacts,
    Order,
    StreamFacts,
    general_cost,
    join_facts,
    moved_first,
    multiway_cost,
    naive_cost,
    order_cost,
    origin_cost,
    phi,
)
from headrace.plan.searching import exact_general, exact_global, exact_naive

Streams = list[StreamFacts]

TABLE_5 = [StreamFacts(10, 100, 500), StreamFacts(1, 100, 50), StreamFacts(1, 200, 40), StreamFacts(3, 100, 5)]
TABLE_6 = [StreamFacts(100, 100, 200), StreamFacts(1, 100, 200), StreamFacts(1, 100, 20), StreamFacts(3, 100, 2)]
TABLE_7 = [StreamFacts(11, 100, 200), StreamFacts(10, 100, 100), StreamFacts(1, 100, 65), StreamFacts(1, 100, 20)]
ALIKE = [StreamFacts(1, 100, 50)] * 4
ONE_FAST = [*ALIKE[:3], StreamFacts(10, 100, 50)]

facts = st.builds(StreamFacts, st.floats(0.1, 100), st.floats(1, 500), st.integers(1, 1000))
some_streams = st.lists(facts, min_size=2, max_size=5)


def order(text: str) -> Order:
    """The paper counts from one."""
    return tuple(int(side) - 1 for side in text)


def all_costs(streams: Streams) -> list[float]:
    return sorted(multiway_cost(streams, one) for one in permutations(range(len(streams))))


@pytest.mark.parametrize(
    ("streams", "text", "cost"),
    [
        (TABLE_5, "1234", 16000), (TABLE_5, "2134", 19600), (TABLE_5, "4321", 86850),
        (TABLE_6, "2134", 80400), (TABLE_6, "1234", 120000), (TABLE_6, "2314", 123150), (TABLE_6, "2341", 248450),
        (TABLE_7, "3142", 47977), (TABLE_7, "3412", 49542), (TABLE_7, "3124", 51954), (TABLE_7, "1234", 68200),
        (TABLE_7, "2134", 79000),
    ],
)  # fmt: skip
def test_global_orders_cost_what_the_tables_say(streams: Streams, text: str, cost: float) -> None:
    assert round(multiway_cost(streams, order(text))) == cost


@pytest.mark.parametrize(
    ("streams", "place", "cost"),
    [
        (TABLE_5, 0, 16000), (TABLE_5, 4, 19600), (TABLE_5, -1, 86850),
        (TABLE_6, 0, 80400), (TABLE_6, -1, 646050),
        (TABLE_7, 0, 47977), (TABLE_7, -1, 79000),
    ],
)  # fmt: skip
def test_best_fifth_and_worst_of_all_orders(streams: Streams, place: int, cost: float) -> None:
    assert round(all_costs(streams)[place]) == cost


def test_mean_of_all_orders_of_table_7() -> None:
    costs = all_costs(TABLE_7)
    assert round(sum(costs) / len(costs)) == 63362


def test_worked_example_of_appendix_b() -> None:
    sizes = {"12": 200, "13": 400, "14": 600, "23": 400, "24": 600, "34": 1500, "123": 800, "124": 1200}
    assert {text: phi(TABLE_5, order(text)) for text in sizes} == sizes
    by_origin = [origin_cost(TABLE_5, origin, moved_first(order("1234"), origin)) for origin in range(4)]
    assert by_origin == pytest.approx([3800, 3800, 2400, 6000])


def test_phi_hat_grows_each_window_by_tau() -> None:
    assert phi(TABLE_5, order("12"), tau=10) == pytest.approx(10 * 110 * 1 * 110 / 500)


def test_eager_formulas_with_new_tuples_inside_the_order() -> None:
    """G2, G3 and G4 of appendix A, as they are printed."""
    one, two, three, four = (stream.size for stream in TABLE_5)
    same = order("1234")
    assert origin_cost(TABLE_5, 1, same) == pytest.approx(origin_cost(TABLE_5, 1, order("2134")))
    phi12, phi123 = phi(TABLE_5, order("12")), phi(TABLE_5, order("123"))
    assert origin_cost(TABLE_5, 2, same) == pytest.approx(1 * (one * two + phi12 + phi12 * four / max(50, 40)))
    assert origin_cost(TABLE_5, 3, same) == pytest.approx(3 * (one * two + phi12 * three + phi123))


def test_lazy_formulas_with_new_tuples_anywhere() -> None:
    """L4, H3 and H4 of appendix A."""
    tau = 8.0
    one, two, three, four = (stream.rate * (stream.window + tau) for stream in TABLE_5)
    phi12, phi123 = phi(TABLE_5, order("12"), tau), phi(TABLE_5, order("123"), tau)
    phi14, phi124 = phi(TABLE_5, order("14"), tau), phi(TABLE_5, order("124"), tau)
    l4 = 3 * one + (phi14 * two + phi124 * three) / (100 + tau)
    h3 = one * two / tau + phi12 * 1 + phi12 * 1 * four / max(50, 40)
    h4 = one * two / tau + phi12 * three / tau + phi123 * 3
    assert origin_cost(TABLE_5, 3, order("4123"), tau) == pytest.approx(l4)
    assert origin_cost(TABLE_5, 2, order("1234"), tau) == pytest.approx(h3)
    assert origin_cost(TABLE_5, 3, order("1234"), tau) == pytest.approx(h4)


def test_a_step_scans_one_bucket() -> None:
    """Section 5.3: alike numbers of buckets divide every cost, and so change no order."""
    hashed = [StreamFacts(one.rate, one.window, one.distinct, 5) for one in TABLE_5]
    for one in permutations(range(4)):
        assert multiway_cost(hashed, one) == pytest.approx(multiway_cost(TABLE_5, one) / 5)


@given(some_streams, st.data())
def test_join_size_does_not_depend_on_the_order(streams: Streams, data: st.DataObject) -> None:
    sides = data.draw(st.permutations(range(len(streams))))
    size, least = streams[sides[0]].size, streams[sides[0]].distinct
    for side in sides[1:]:
        size *= streams[side].size / max(least, streams[side].distinct)
        least = min(least, streams[side].distinct)
    assert phi(streams, sides) == pytest.approx(size)


def test_figure_2_eager_scales_better_than_naive() -> None:
    costs = {}
    for sides in range(2, 8):
        streams, same = [StreamFacts(1, 100, 50)] * sides, tuple(range(sides))
        costs[sides] = naive_cost(streams, same), multiway_cost(streams, same)
    assert costs[2][0] == pytest.approx(costs[2][1])
    assert all(naive > 10 * eager for sides, (naive, eager) in costs.items() if sides > 2)


@given(st.lists(facts.filter(lambda one: one.size >= max(2, one.distinct)), min_size=2, max_size=5), st.data())
def test_eager_is_never_worse_than_naive(streams: Streams, data: st.DataObject) -> None:
    """Section 4.3, for windows that hold their distinct values."""
    one = tuple(data.draw(st.permutations(range(len(streams)))))
    assert multiway_cost(streams, one) <= naive_cost(streams, one) * (1 + 1e-9)


def best_general(streams: Streams, tau: float) -> float:
    orders = [exact_general(streams, origin, tau).order for origin in range(len(streams))]
    return general_cost(streams, orders, tau)


@given(some_streams, st.floats(0.1, 100))
def test_general_is_never_worse_than_the_others(streams: Streams, tau: float) -> None:
    limit = best_general(streams, tau) * (1 - 1e-9)
    assert limit <= exact_global(streams, tau).cost
    assert limit <= exact_naive(streams, tau).cost


@pytest.mark.parametrize("tau", [1, 5, 10, 20, 50])
def test_figure_3a_new_tuples_first_is_best_for_streams_alike(tau: float) -> None:
    lazy, naive = exact_global(ALIKE, tau).cost, exact_naive(ALIKE, tau).cost
    assert lazy == pytest.approx(best_general(ALIKE, tau))
    assert lazy < naive


def test_figure_3a_cost_rises_with_tau_and_naive_catches_up() -> None:
    lazy = [exact_global(ALIKE, tau).cost for tau in (1, 5, 10, 20, 50)]
    naive = [exact_naive(ALIKE, tau).cost for tau in (1, 5, 10, 20, 50)]
    assert lazy == sorted(lazy)
    ratios = [one / other for one, other in zip(naive, lazy, strict=True)]
    assert ratios == sorted(ratios, reverse=True)


def test_figure_3b_a_fast_stream_makes_lazy_worse_than_general_when_tau_is_large() -> None:
    assert exact_global(ONE_FAST, 1).cost == pytest.approx(best_general(ONE_FAST, 1))
    assert exact_naive(ONE_FAST, 1).cost > 1.5 * best_general(ONE_FAST, 1)
    general, lazy, naive = best_general(ONE_FAST, 50), exact_global(ONE_FAST, 50).cost, exact_naive(ONE_FAST, 50).cost
    assert general < naive < lazy
    assert naive < 1.1 * general
    assert exact_naive(ONE_FAST, 50).order[-1] == 3
    assert exact_general(ONE_FAST, 3, 50).order[-1] == 3


@given(some_streams, st.just(0.0) | st.floats(0.01, 50), st.data())
def test_a_common_attribute_as_a_graph_costs_the_same(streams: Streams, tau: float, data: st.DataObject) -> None:
    one = tuple(data.draw(st.permutations(range(len(streams)))))
    expected = origin_cost(streams, one[0], one, tau)
    assert order_cost(join_facts(streams, tau), one[0], one) == pytest.approx(expected)


def chain(indexed: frozenset[tuple[int, int]] = frozenset()) -> JoinFacts:
    """a.x = b.x and b.y < c.y."""
    matches = {(0, 1): 2.0, (1, 2): 100.0}
    return JoinFacts((10.0, 1.0, 1.0), (1000.0, 100.0, 200.0), matches, {(0, 1): 0}, indexed)


def test_a_chain_of_predicates() -> None:
    assert order_cost(chain(), 0, (0, 1, 2)) == 10 * (100 + 2 * 200)
    assert order_cost(chain(), 0, (0, 2, 1)) == 10 * (200 + 200 * 100)
    assert order_cost(chain(), 2, (2, 1, 0)) == 1 * (100 + 50 * 1000)


def test_an_index_is_read_instead_of_the_window() -> None:
    facts = chain(frozenset({(0, 1), (1, 0)}))
    assert order_cost(facts, 0, (0, 1, 2)) == 10 * (2 + 2 * 200)
    assert order_cost(facts, 2, (2, 1, 0)) == 1 * (100 + 50 * 20)
    assert order_cost(facts, 2, (2, 0, 1)) == 1 * (1000 + 1000 * 2)


def test_a_look_up_in_buckets_reads_a_bucket_whatever_it_matches() -> None:
    """As in the paper's model of 5.3; a comparison is looked up in no bucket."""
    hashed = [StreamFacts(one.rate, one.window, one.distinct, 5) for one in TABLE_5]
    facts = replace(join_facts(hashed), buckets=(5,) * 4)
    for one in permutations(range(4)):
        assert order_cost(facts, one[0], one) == pytest.approx(origin_cost(hashed, one[0], one))
    bucketed = replace(chain(frozenset({(0, 1), (1, 2)})), buckets=(1, 4, 1))
    assert order_cost(bucketed, 0, (0, 1, 2)) == 10 * (25 + 2 * 100)


def test_looking_up_nothing_costs_an_access() -> None:
    facts = JoinFacts((1.0, 1.0), (10.0, 10.0), {(0, 1): 0.1}, {}, frozenset({(0, 1)}))
    assert order_cost(facts, 0, (0, 1)) == 1


def test_edges_of_one_class_count_once_and_others_multiply() -> None:
    pairs = [(0, 1), (0, 2), (1, 2)]
    sizes = (100.0, 100.0, 100.0)
    matches = dict.fromkeys(pairs, 10.0)
    one_class = JoinFacts(sizes, sizes, matches, dict.fromkeys(pairs, 7), frozenset())
    apart = JoinFacts(sizes, sizes, matches, {pair: at for at, pair in enumerate(pairs)}, frozenset())
    thetas = JoinFacts(sizes, sizes, matches, {}, frozenset())
    assert CostGraph(one_class).composites((0, 1, 2)) == pytest.approx(100)
    assert CostGraph(apart).composites((0, 1, 2)) == pytest.approx(10)
    assert CostGraph(thetas).composites((0, 1, 2)) == pytest.approx(10)


def test_what_is_measured_in_both_directions_is_averaged() -> None:
    facts = JoinFacts((1.0, 1.0), (10.0, 20.0), {(0, 1): 4.0, (1, 0): 1.0}, {}, frozenset())
    assert facts.selectivity(0, 1) == facts.selectivity(1, 0) == pytest.approx(0.15)


def test_an_empty_window_costs_nothing_further() -> None:
    facts = JoinFacts((1.0, 1.0, 1.0), (10.0, 0.0, 20.0), {(0, 1): 0.0, (1, 2): 3.0}, {}, frozenset())
    assert order_cost(facts, 0, (0, 1, 2)) == 0
    assert order_cost(facts, 0, (0, 2, 1)) == 20


def test_facts_that_cannot_be_are_refused() -> None:
    with pytest.raises(PlanError, match="not negative"):
        StreamFacts(-1, 1, 1)
    with pytest.raises(PlanError, match="at least one distinct value"):
        StreamFacts(1, 1, 0)
    with pytest.raises(PlanError, match="1 rates for 2 windows"):
        JoinFacts((1.0,), (1.0, 1.0), {}, {}, frozenset())
    with pytest.raises(PlanError, match="2 windows has at least one bucket"):
        JoinFacts((1.0, 1.0), (1.0, 1.0), {}, {}, frozenset(), (3, 0))
    with pytest.raises(PlanError, match="not a pair of the 2 sides"):
        JoinFacts((1.0, 1.0), (1.0, 1.0), {(0, 2): 1.0}, {}, frozenset())
    with pytest.raises(PlanError, match="not an order of 4 sides"):
        origin_cost(TABLE_5, 0, (0, 1, 2))
    with pytest.raises(PlanError, match="between two evaluations"):
        origin_cost(TABLE_5, 0, (0, 1, 2, 3), tau=-1)
    with pytest.raises(PlanError, match="starts with it"):
        order_cost(chain(), 0, (1, 0, 2))
