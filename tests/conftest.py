"""Hypothesis for the whole suite: no deadlines on a shared machine, and the same examples every time in CI.

``HYPOTHESIS_PROFILE=thorough`` is for a long look: new examples each time, many more of them where a test says
``@examples(...)``, and those that failed are kept for the next run.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

settings.register_profile("here", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", parent=settings.get_profile("here"), derandomize=True, print_blob=True)
settings.register_profile("thorough", parent=settings.get_profile("here"), max_examples=2000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "here"))
