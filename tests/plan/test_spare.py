"""What a service rate leaves when it is enough for every probe."""

from __future__ import annotations

import json

import pytest
from allocation_cases import two_joins

from headrace.plan.allocators import allocate
from headrace.plan.spare import Spare, spare_of


def test_what_is_left_is_for_whole_paths() -> None:
    problem = two_joins(20_000)
    found = spare_of(allocate(problem), problem.mu)
    assert found is not None
    assert found.units == 20_000 - problem.saturation.spent
    assert found.upward == (1 + 2.5, 1 + 5.0, 1, 1)
    assert found.finds == (2.5, 5.0, 5.0, 2.0)
    assert Spare.from_json(json.loads(json.dumps(found.to_json()))) == found


@pytest.mark.parametrize("name", ["jaqpot", "grepp", "jda_m", "exact", "pruned"])
def test_where_probes_are_left_out_nothing_is_left(name: str) -> None:
    problem = two_joins(3000)
    assert spare_of(allocate(problem, name), problem.mu) is None


def test_an_allocator_that_gives_less_than_there_is_means_it() -> None:
    assert spare_of(allocate(two_joins(20_000), "gh_wmscp"), 20_000) is None
