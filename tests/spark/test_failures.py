"""What a user is told of a failed streaming query: its cause in one line, and where the rest is."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import StreamingQueryException

from headrace.errors import HeadraceError, SourceError, StateError
from headrace.spark.checkpoint import Checkpoint
from headrace.spark.failures import explained_failure
from headrace.spark.metrics import RunMetrics
from headrace.spark.run import BEGINNINGS, Run

FAILED = "[STREAM_FAILED] Query [id = 6b94-83f0, runId = eb53-328e] terminated with exception: "
TRACEBACK = 'Traceback (most recent call last):\n  File "worker.py", line 9, in process\n    first = next(batches)\n'
PLAN = " SQLSTATE: 39000 SQLSTATE: XXKST\n=== Streaming Query ===\nIdentifier: headrace [id = 6b94]\nState: ACTIVE\n"


@pytest.mark.parametrize(
    ("story", "kind", "told"),
    [
        (
            "[FOREACH_BATCH_USER_FUNCTION_ERROR] An error occurred in the user provided function in foreach batch "
            f"sink. Reason: Return Message: {TRACEBACK}RuntimeError: the sink is down\n",
            HeadraceError,
            "the streaming query failed: RuntimeError: the sink is down",
        ),
        (
            "[FAILED_READ_FILE.PARQUET_COLUMN_DATA_TYPE_MISMATCH] Encountered error while reading file "
            "file:///a/3.parquet. Data type mismatches when reading Parquet column [id].",
            SourceError,
            "Encountered error while reading file file:///a/3.parquet. Data type mismatches when reading Parquet "
            "column [id]. Correct the file or move it away, then start again: nothing is lost",
        ),
        (
            "Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times, most recent failure: "
            "org.apache.spark.SparkIllegalArgumentException: CSV header does not conform to the schema.\n"
            " Header: value, id\n Schema: id, value\nExpected: id but found: value\nCSV file: file:///a/3.csv\n"
            "\tat org.apache.spark.sql.catalyst.csv.CSVHeaderChecker\n",
            SourceError,
            "the header of file:///a/3.csv does not have the declared columns in order. Correct the file or move it "
            "away, then start again: nothing is lost",
        ),
        (
            f"An exception was thrown from the Python worker:\n{TRACEBACK}headrace.errors.StateError: the checkpoint's "
            "state has version 2\n",
            StateError,
            "the checkpoint's state has version 2",
        ),
        (
            "java.lang.OutOfMemoryError: Java heap space",
            HeadraceError,
            "the streaming query failed: OutOfMemoryError: Java heap",
        ),
    ],
    ids=["callback", "file", "header", "ours", "other"],
)
def test_failure_is_told_by_its_cause(tmp_path: Path, story: str, kind: type[HeadraceError], told: str) -> None:
    error = explained_failure(Exception(f"{FAILED}{story}{PLAN}"), tmp_path)
    assert type(error) is kind
    assert told in str(error)
    assert "\n" not in str(error)
    assert str(error).endswith(f"(all of it is in {tmp_path / 'failure.log'})")
    assert (tmp_path / "failure.log").read_text() == f"{FAILED}{story}{PLAN}"


class GoneQuery:
    """A streaming query whose Spark has died."""

    def awaitTermination(self) -> None:  # noqa: N802
        raise Py4JError("An error occurred while calling o1.awaitTermination")

    def stop(self) -> None:
        raise ConnectionRefusedError

    @property
    def lastProgress(self) -> None:  # noqa: N802
        raise ConnectionRefusedError


def test_death_of_sparks_process_is_told_and_everything_is_left_tidy(tmp_path: Path) -> None:
    left: list[str] = []
    metrics = RunMetrics(("q",), (), {}, 1, 0.0)
    run = Run(
        GoneQuery(),
        SimpleNamespace(),
        metrics,
        Checkpoint(tmp_path, "one", (0,)),
        lambda: left.append("left"),
        once=False,
    )
    with pytest.raises(HeadraceError, match="Spark's process has ended") as told:
        run.wait(10)
    assert told.value.exit_code == 1
    assert run.stats().batch_ms == 0.0
    run.stop()
    assert left == ["left"]


class ImpatientQuery:
    """A streaming query that Spark gives up so many times before it goes well."""

    def __init__(self, failures: int, story: str = "Python worker failed to connect back.") -> None:
        self.failures = failures
        self.story = story
        self.begun = 0

    def again(self) -> ImpatientQuery:
        self.begun += 1
        return self

    def awaitTermination(self) -> None:  # noqa: N802
        if self.failures:
            self.failures -= 1
            raise StreamingQueryException(self.story)


@pytest.mark.parametrize(
    ("failures", "story", "begun", "told"),
    [
        (2, "Python worker failed to connect back.", 2, None),
        (99, "Python worker failed to connect back.", BEGINNINGS, "failed to connect back"),
        (1, "ValueError: out of luck", 0, "out of luck"),
    ],
)
def test_a_query_that_spark_gave_up_before_it_began_is_begun_again(
    tmp_path: Path, failures: int, story: str, begun: int, told: str | None
) -> None:
    query = ImpatientQuery(failures, story)
    metrics = RunMetrics(("q",), (), {}, 1, 0.0)
    checkpoint = Checkpoint(tmp_path, "one", (0,))
    run = Run(query, SimpleNamespace(), metrics, checkpoint, lambda: None, once=False, again=query.again)
    if told is None:
        assert run.wait(10)
    else:
        with pytest.raises(HeadraceError, match=told):
            run.wait(10)
    assert query.begun == begun
