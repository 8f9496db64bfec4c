"""Signals while a run is watched: the first one asks, a later one does not wait, and handlers come back."""

from __future__ import annotations

import os
import signal
import time

import pytest

from headrace.console.stopping import SAME_S, stop_asked


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_asks_and_a_later_one_interrupts(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with stop_asked() as asked:
        assert not asked.is_set()
        os.kill(os.getpid(), number)
        assert asked.is_set()
        os.kill(os.getpid(), number)  # the same one, sent to the process and to its group
        time.sleep(2 * SAME_S)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
    assert signal.getsignal(number) is before
