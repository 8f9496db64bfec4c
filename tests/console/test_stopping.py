"""Signals while a run is watched: the first one asks, the second one does not wait, and handlers come back."""

from __future__ import annotations

import os
import signal

import pytest

from headrace.console.stopping import stop_asked


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_asks_and_the_second_interrupts(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with stop_asked() as asked:
        assert not asked.is_set()
        os.kill(os.getpid(), number)
        assert asked.is_set()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
    assert signal.getsignal(number) is before
