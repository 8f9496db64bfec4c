"""What is looked at in a stream's files before its first run."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.errors import SourceError
from headrace.model import BIGINT, DOUBLE, TIMESTAMP, Column, Schema, Stream, StreamId
from headrace.spark.sources import check_files

SCHEMA = Schema((Column("id", BIGINT), Column("Value", DOUBLE), Column("ts", TIMESTAMP)))


def _csv(directory: Path, text: bytes) -> Stream:
    (directory / "0.csv").write_bytes(text)
    options = (("connector", "files"), ("format", "csv"), ("header", "true"), ("path", str(directory)))
    return Stream(StreamId("s"), SCHEMA, "ts", options=options)


@pytest.mark.parametrize("text", [b"id,value,ts\n", b'"ID",Value,ts\n1,2,3\n', b"\xef\xbb\xbfid,value,ts\n", b""])
def test_header_with_the_declared_columns_fits(tmp_path: Path, text: bytes) -> None:
    check_files(_csv(tmp_path, text))


@pytest.mark.parametrize("text", [b"value,id,ts\n", b"id,value\n", b"id, value, ts\n"])
def test_header_with_other_columns_or_another_order_is_refused(tmp_path: Path, text: bytes) -> None:
    with pytest.raises(SourceError, match="declared are id, Value, ts"):
        check_files(_csv(tmp_path, text))
