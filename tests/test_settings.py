"""Settings of the operator graph: what is allowed, and that the engine knows every name that is."""

from __future__ import annotations

import pytest

from headrace.config import ALLOCATOR_NAMES, FAIRNESS_NAMES, PROBE_CHOICES, STRATEGY_NAMES, Settings
from headrace.engine.choosing import FAIRNESS
from headrace.engine.strategies import STRATEGIES
from headrace.engine.tree_join import Choice
from headrace.errors import SettingError
from headrace.plan.allocators import ALLOCATORS, DEFAULT_ALLOCATOR
from headrace.plan.explain import FAIRNESS_TEXTS


def test_every_strategy_and_fairness_can_be_set() -> None:
    assert set(STRATEGY_NAMES) == set(STRATEGIES)
    assert set(FAIRNESS_NAMES) == set(FAIRNESS) == set(FAIRNESS_TEXTS)
    for name in STRATEGY_NAMES:
        assert Settings().with_text("strategy", name.upper()).strategy == name
    assert (Settings().strategy, Settings().fairness) == ("threshold", "oldest")


def test_every_allocator_and_choice_of_probes_can_be_set() -> None:
    assert set(ALLOCATOR_NAMES) == set(ALLOCATORS)
    assert set(PROBE_CHOICES) == {one.value for one in Choice}
    assert Settings().allocator == DEFAULT_ALLOCATOR


def test_a_tree_is_two_parts_in_parentheses() -> None:
    assert Settings().with_text("plan", " ((a  b) c)").plan == "((a b) c)"
    assert Settings().with_text("plan", "auto").plan is None
    for wrong in ("a b", "((a b) c", "(a b))", "(a)", "(a b) (c d)", ""):
        with pytest.raises(SettingError, match="setting plan"):
            Settings().with_text("plan", wrong)


def test_queue_memory_is_a_size_above_nothing() -> None:
    assert Settings().with_text("queue_memory", "256 MB").queue_memory_bytes == 256 * 10**6
    for wrong in ("0", "much", "0.2 B"):
        with pytest.raises(SettingError, match="setting queue_memory"):
            Settings().with_text("queue_memory", wrong)


@pytest.mark.parametrize(("name", "told"), [("strategy", "fifo, chain, path"), ("fairness", "static, oldest, aging")])
def test_what_is_not_a_name_is_refused_with_those_that_are(name: str, told: str) -> None:
    with pytest.raises(SettingError, match=told):
        Settings().with_text(name, "round robin")
