"""A machine's copies of immutable segments: memory-mapped files, named by content, the least recently used let go.

The state store has every stored segment; this only saves reading it back. A missing file is a miss, never an error.
Invariants: a file appears whole or not at all (written aside, then renamed); all shards and runs of a machine share one
root and one limit. Cost: a hit maps a file; trimming lists the root.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

_SEGMENT = re.compile(r"\.?[0-9a-f]{32}(-\d+)?(\.\d+)?")
"""What a cached segment is called, also while it is being written; no other file is ever removed."""


def cache_root(directory: str | None) -> Path:
    """The user's own part of a directory that others may use too; by default the system's for temporary files."""
    return Path(directory or tempfile.gettempdir()) / f"headrace-{os.getuid()}"


@dataclass(frozen=True, slots=True)
class SegmentCache:
    """The segments of one checkpoint on this machine; ``root`` and ``limit_bytes`` are shared with all others."""

    root: Path
    checkpoint_id: str
    limit_bytes: int

    @property
    def _directory(self) -> Path:
        return self.root / self.checkpoint_id

    def get(self, name: str) -> pa.Buffer | None:
        """The mapped bytes, or None where this machine has no copy."""
        path = self._directory / name
        try:
            with pa.memory_map(str(path)) as mapped:
                buffer = mapped.read_buffer()
            os.utime(path)
        except OSError:  # never there, or trimmed this moment by another worker
            return None
        return buffer

    def put(self, name: str, blob: pa.Buffer) -> None:
        self._write(name, lambda file: file.write(blob))

    def put_batch(self, name: str, batch: pa.RecordBatch) -> None:
        def write(file: pa.NativeFile) -> None:
            with pa.ipc.new_file(file, batch.schema) as writer:
                writer.write_batch(batch)

        self._write(name, write)

    def _write(self, name: str, write: Callable[[pa.NativeFile], object]) -> None:
        aside = self._directory / f".{name}.{os.getpid()}"
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            with pa.OSFile(str(aside), "wb") as file:
                write(file)
            aside.rename(self._directory / name)
        except OSError:  # a full disk, or trimmed this moment by another worker: then there is no copy
            with suppress(OSError):
                aside.unlink(missing_ok=True)

    def drop(self, name: str) -> None:
        (self._directory / name).unlink(missing_ok=True)

    def trim(self) -> None:
        """Lets the least recently used files go until all of the machine's fit the limit."""
        files = []
        for directory in self.root.glob("*"):
            with suppress(OSError):  # another run may have cleared it this moment
                for entry in [one for one in directory.iterdir() if _SEGMENT.fullmatch(one.name)]:
                    with suppress(FileNotFoundError):  # another worker may have dropped it since
                        stat = entry.stat()
                        files.append((stat.st_mtime, stat.st_size, entry))
        held = sum(size for _, size, _ in files)
        for _, size, path in sorted(files):
            if held <= self.limit_bytes:
                return
            path.unlink(missing_ok=True)
            held -= size

    def clear(self) -> None:
        """Removes this checkpoint's copies."""
        shutil.rmtree(self._directory, ignore_errors=True)
