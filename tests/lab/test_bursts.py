"""Self-similar streams: the same for a seed, about as many tuples as asked for, bursty at every scale."""

from __future__ import annotations

import numpy as np
import pytest

from headrace.lab.bursts import Bursts, arrival_times, counts


def test_the_same_seed_gives_the_same_tuples() -> None:
    one, same, other = (arrival_times(Bursts(100.0), 20.0, seed) for seed in (1, 1, 2))
    assert np.array_equal(one, same)
    assert len(one) != len(other) or not np.array_equal(one, other)


def test_tuples_are_in_order_and_within_the_time() -> None:
    times = arrival_times(Bursts(200.0), 30.0, 5)
    assert np.all(np.diff(times) >= 0)
    assert times[0] >= 0
    assert times[-1] < 30.0
    assert counts(times, 30.0, 0.5).sum() == len(times)


def test_the_rate_is_about_as_asked_for_in_the_long_run() -> None:
    rates = [len(arrival_times(Bursts(50.0), 2_000.0, seed)) / 2_000.0 for seed in range(5)]
    assert np.mean(rates) == pytest.approx(50.0, rel=0.25)


def test_sums_over_long_spans_stay_bursty() -> None:
    """Of independent arrivals the variance of the mean falls as 1 / span; of self-similar ones much more slowly."""
    per_second = counts(arrival_times(Bursts(200.0), 8_192.0, 3), 8_192.0, 1.0).astype(float)
    spans = [1, 4, 16, 64, 256]
    variances = [per_second.reshape(-1, span).mean(axis=1).var() for span in spans]
    slope = np.polyfit(np.log(spans), np.log(variances), 1)[0]
    assert slope > -0.8


def test_a_stream_that_has_no_mean_is_refused() -> None:
    with pytest.raises(ValueError, match="mean"):
        Bursts(10.0, on_tail=1.0)
