"""What Spark calls for each shard and micro-batch; the work is in :mod:`headrace.spark.step`.

State, per shard: one small manifest (ValueState) and the segments it refers to (MapState), committed together with the
micro-batch by Spark. Invariant: importing this module, and unpickling a processor, brings in neither the engine nor
pandas. Spark starts a Python process on the driver, before the first micro-batch, only to hear of the states.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

if TYPE_CHECKING:
    import pandas as pd

    from headrace.spark.orders import Work
    from headrace.spark.step import HostOptions

_NAME = StructType([StructField("name", StringType())])
_BLOB = StructType([StructField("blob", BinaryType())])


class ShardProcessor(StatefulProcessor):  # type: ignore[misc]
    """Runs one shard for one micro-batch."""

    def __init__(self, work: Work, options: HostOptions) -> None:
        self._work = pickle.dumps(work)
        self._options = pickle.dumps(options)

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._manifest = handle.getValueState("manifest", _BLOB)
        self._segments = handle.getMapState("segments", _NAME, _BLOB)

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: ARG002
        from headrace.spark.envelopes import to_pandas
        from headrace.spark.orders import batch_number
        from headrace.spark.step import Step

        options: HostOptions = pickle.loads(self._options)
        work = options.orders.work(batch_number(), self._work)
        shard_number = options.labels.index(int(key[0]))
        yield to_pandas(Step(work, options, shard_number, self._manifest, self._segments).run(rows))

    def close(self) -> None:
        """Nothing is held between micro-batches."""
