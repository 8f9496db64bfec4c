"""Hypothesis for the whole suite: no deadlines on a shared machine, and the same examples every time.

A commit that passes once passes again. New examples are looked for on demand, by ``make search``
(``HYPOTHESIS_PROFILE=search``: new ones each time, twice as many where a test says ``@examples(...)``;
``thorough``: many times more); those that fail are kept for the next run.

Spark's JVMs live for a test or a file of tests: compiling their code well costs more than it gives.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

settings.register_profile("search", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.register_profile("same", parent=settings.get_profile("search"), derandomize=True)
settings.register_profile("thorough", parent=settings.get_profile("search"), max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or "same")
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
