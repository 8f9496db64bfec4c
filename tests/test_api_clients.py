"""What the benchmark of many clients takes for a leak."""

from __future__ import annotations

import pytest

from benchmarks.api_clients import MOST_GROWTH, leaks

HELD = {"threads": 80, "files": 40, "service_mb": 300, "with_spark_mb": 2000}


@pytest.mark.parametrize("name", MOST_GROWTH)
def test_growth_after_the_first_visit_is_a_leak(name: str) -> None:
    most = HELD[name] + MOST_GROWTH[name]
    assert leaks(HELD, HELD | {name: most, "with_spark_mb": 9000}) == []
    assert leaks(HELD, HELD | {name: most + 1}) == [name]


def test_memory_is_looked_at() -> None:
    assert leaks(HELD, HELD | {"service_mb": 3000}) == ["service_mb"]
