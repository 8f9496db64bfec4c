"""All experiments by name, in the order of the papers."""

from __future__ import annotations

from headrace.lab.experiment import Experiment
from headrace.lab.in_order import ORDERING_EXPERIMENTS
from headrace.lab.limited_joins import LIMITED_EXPERIMENTS
from headrace.lab.multi_joins import JOIN_EXPERIMENTS
from headrace.lab.operator_strategies import OPERATOR_EXPERIMENTS
from headrace.lab.overload_on_spark import OVERLOAD_EXPERIMENTS
from headrace.lab.scheduling_on_spark import SPARK_EXPERIMENTS
from headrace.lab.shared_windows import WINDOW_EXPERIMENTS

EXPERIMENTS: dict[str, Experiment] = {
    one.name: one
    for one in (
        *WINDOW_EXPERIMENTS,
        *LIMITED_EXPERIMENTS,
        *JOIN_EXPERIMENTS,
        *OPERATOR_EXPERIMENTS,
        *ORDERING_EXPERIMENTS,
        *SPARK_EXPERIMENTS,
        *OVERLOAD_EXPERIMENTS,
    )
}
