# SPDX-License-Identifier: Apache-2.0
"""Reads a trace a batch at a time, for traces that are larger than memory."""

import os
from collections.abc import Iterator
from typing import Any

from quarry import _core
from quarry.arrow import NAMES
from quarry.errors import BadArgument
from quarry.traces import EVENT, Progress, Trace

__all__ = ["TraceBatches", "read_batches"]


class TraceBatches(Iterator[Trace]):
    """The events of a file in order, as traces of at most `events` events. `read_batches` makes it.

    Names keep their numbers: each batch has the names that it and the batches before it use. The
    object is also a stream of Arrow's record batches, for libraries that take such streams. It
    can be read once. Threads may share it; each batch goes to one of them.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        events: int,
        progress: Progress | None,
        allocator: str = "all",
    ) -> None:
        if events < 1:
            raise BadArgument(f"read_batches: events is {events}; it must be at least 1")
        self.path = os.fspath(path)
        self._file = _core.BatchReader(self.path, allocator)
        self._limit = events
        self._progress = progress
        self._names: dict[str, list[str]] = {key: [] for key in NAMES.values()}
        self._read = 0

    def __next__(self) -> Trace:
        known = {key: len(names) for key, names in self._names.items()}
        found = self._file.next(self._limit, **known)
        if found is None:
            raise StopIteration
        events = found.pop("events").view(EVENT)
        self._names |= found
        self._read += len(events)
        if self._progress is not None:
            self._progress(self._read)
        names: dict[str, Any] = self._names
        return Trace(events, path=self.path, format=self.format, **names)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The rest of the file as a stream of Arrow's record batches.

        The stream ignores `requested_schema`, as Arrow's interface allows.
        """
        return _core.arrow_stream_of_file(self._file, self._limit)

    @property
    def format(self) -> str:
        """The format of the file, as `quarry info` names it."""
        return self._file.format

    @property
    def problems(self) -> list[str]:
        """What the reader skipped until now: at most 100 texts."""
        return self._file.problems

    @property
    def problem_count(self) -> int:
        """The number of problems until now, also beyond the first 100."""
        return self._file.problem_count


def read_batches(
    path: str | os.PathLike[str],
    events: int = 1 << 20,
    *,
    allocator: str = "all",
    progress: Progress | None = None,
) -> TraceBatches:
    """Reads a trace in batches of `events` events, each of which needs 56 bytes of memory.

    So the memory does not grow with the length of the file; only the names are kept. `allocator` is
    that of `quarry.replay`, but by default the batches have the events of all allocators.
    `progress` is called after each batch with the number of events read until now. Raises BadTrace
    if the file is not a trace, ResourceFailed if it cannot be read, and BadArgument if `events` is
    less than 1 or the trace has no such allocator.
    """
    return TraceBatches(path, events, progress, allocator)
