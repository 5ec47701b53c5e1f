# SPDX-License-Identifier: Apache-2.0
"""Traces of allocators as NumPy columns."""

import enum
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from quarry import _core
from quarry.arrow import columns_of, import_pyarrow, is_arrow
from quarry.errors import BadArgument

EVENT: np.dtype[Any] = np.dtype(cast(Any, _core.event_layout()))
_MEMBERS: tuple[str, ...] = EVENT.names or ()
_ARROW_BATCH = 1 << 16  # events

#: The columns that are indices, and the names that they are indices of; in the order of files.
_NAMES = {
    "call_site": "call_sites",
    "allocator": "allocators",
    "thread": "threads",
    "stream": "streams",
}

Progress = Callable[[int], object]


class Kind(enum.IntEnum):
    """What happened at an event."""

    ALLOCATE = 0
    DEALLOCATE = 1
    FAIL = 2
    RESERVE = 3  # the recorded allocator took a block from its upstream
    UNRESERVE = 4
    WAIT = 5  # `stream` waits for the stream whose number is `size`
    PHASE = 6  # a phase begins; its name is the call site's


@dataclass(frozen=True, eq=False)
class Trace:
    """The events of a trace, in order: one NumPy column for each of their members.

    `thread`, `stream`, `allocator` and `call_site` are indices of `threads`, `streams`,
    `allocators` and `call_sites`; a number without a name is unknown. `problems` says what the
    reader skipped; `problem_count` also counts the problems beyond the first 100.
    """

    events: np.ndarray
    call_sites: list[str] = field(default_factory=lambda: [""])
    allocators: list[str] = field(default_factory=lambda: [""])
    threads: list[str] = field(default_factory=lambda: [""])
    streams: list[str] = field(default_factory=lambda: [""])
    format: str = ""
    path: str = ""
    problems: list[str] = field(default_factory=list)
    problem_count: int = 0

    def __post_init__(self) -> None:
        if self.events.dtype.names is None:
            raise BadArgument("Trace: the events are no records; make_trace takes columns")
        if self.events.dtype != EVENT:  # np.concatenate leaves the gaps between members out
            object.__setattr__(self, "events", self.events.astype(EVENT))

    def __len__(self) -> int:
        return len(self.events)

    def __repr__(self) -> str:
        return f"Trace({len(self):,} events, path={self.path!r}, format={self.format!r})"

    @property
    def time(self) -> npt.NDArray[np.uint64]:
        """Nanoseconds since an epoch that the trace's writer chose."""
        return self.events["time"]

    @property
    def kind(self) -> npt.NDArray[np.uint8]:
        """The `Kind` of each event."""
        return self.events["kind"]

    @property
    def address(self) -> npt.NDArray[np.uint64]:
        """The address of the allocation or block; 0 for events without one."""
        return self.events["address"]

    @property
    def size(self) -> npt.NDArray[np.uint64]:
        """Requested bytes."""
        return self.events["size"]

    @property
    def granted(self) -> npt.NDArray[np.uint64]:
        """Bytes after rounding, or 0 if unknown."""
        return self.events["granted"]

    @property
    def thread(self) -> npt.NDArray[np.uint32]:
        """The number of each event's thread in `threads`; 0 if unknown."""
        return self.events["thread"]

    @property
    def stream(self) -> npt.NDArray[np.uint32]:
        """The number of each event's stream in `streams`; 0 is the default stream."""
        return self.events["stream"]

    @property
    def allocator(self) -> npt.NDArray[np.uint32]:
        """The number of each event's allocator in `allocators`; 0 if unknown."""
        return self.events["allocator"]

    @property
    def call_site(self) -> npt.NDArray[np.uint32]:
        """The number of each event's call site in `call_sites`; 0 if unknown."""
        return self.events["call_site"]

    def call_site_name(self, number: int) -> str:
        """The name of the call site with this `number`; empty if it is unknown."""
        return self.call_sites[number] if number < len(self.call_sites) else ""

    def columns(self) -> dict[str, np.ndarray]:
        """A contiguous copy of each column. `make_trace` takes them back."""
        return {name: np.ascontiguousarray(self.events[name]) for name in _MEMBERS}

    def to_arrow(self) -> Any:
        """The trace as a `pyarrow.Table`; `make_trace` takes it back.

        `kind`, `thread`, `stream`, `allocator` and `call_site` are dictionaries of names. Needs
        pyarrow (`pip install pyarrow`), and raises ResourceFailed without it. Polars,
        DuckDB, pandas and other libraries with Arrow's PyCapsule interface take a trace directly.
        """
        return import_pyarrow("to_arrow").table(self)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The trace as a stream of Arrow's record batches, for libraries that take such streams.

        A batch is copied when the library asks for it. The stream ignores `requested_schema`, as
        Arrow's interface allows.
        """
        return _core.arrow_stream_of_events(
            record_bytes(self.events),
            self.threads,
            self.streams,
            self.allocators,
            self.call_sites,
            _ARROW_BATCH,
        )

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes the trace in Quarry's own format. Raises ResourceFailed."""
        events, tables = self.events.copy(), []
        for column, table in _NAMES.items():
            names = getattr(self, table)
            if names and names[0]:  # in a file, number 0 has no name
                names = ["", *names]
                events[column] += 1
                if column == "stream":
                    events["size"][events["kind"] == Kind.WAIT] += 1
            tables.append(names)
        _core.write_trace(os.fspath(path), record_bytes(events), *tables)


def record_bytes(records: np.ndarray) -> npt.NDArray[np.uint8]:
    """The bytes of an array of records, in the form that the compiled module takes."""
    return np.ascontiguousarray(records).view(np.uint8)


def make_trace(columns: Any, **names: Any) -> Trace:
    """A trace from columns of equal length. Columns that are missing are 0.

    `columns` is a dictionary of arrays, or a table of Arrow, Polars, pandas or another library with
    Arrow's PyCapsule interface, which needs pyarrow. In a table, `kind` may have the texts
    `allocate`, `deallocate`, `fail`, `reserve`, `unreserve`, `wait` and `phase`, and `thread`,
    `stream`, `allocator` and `call_site` may have names. `names` are the other arguments of
    `Trace`, such as `call_sites`. Raises BadArgument for unknown columns, for columns of different
    lengths, for numbers that a column cannot hold, and for allocations of bytes at address 0;
    ResourceFailed without pyarrow.
    """
    if is_arrow(columns):
        columns, found = columns_of(columns, {kind.name.lower(): kind.value for kind in Kind})
        names = found | names
    unknown = sorted(set(columns) - set(_MEMBERS))
    if unknown:
        raise BadArgument(
            f"make_trace: there is no column {unknown[0]!r}; there are {', '.join(_MEMBERS)}"
        )
    lengths: Sequence[int] = [len(column) for column in columns.values()]
    if len(set(lengths)) > 1:
        raise BadArgument(f"make_trace: the columns have different lengths: {sorted(set(lengths))}")
    events = np.zeros(lengths[0] if lengths else 0, EVENT)
    for name, column in columns.items():
        try:
            events[name] = _checked(name, column)
        except (OverflowError, TypeError, ValueError) as failed:
            raise BadArgument(f"make_trace: column {name!r}: {failed}") from failed
    for name, table in _NAMES.items():
        largest = int(events[name].max(initial=0))
        if table in names and largest >= len(names[table]) and len(events):
            raise BadArgument(
                f"make_trace: column {name!r} has the number {largest}, but `{table}` has only "
                f"{len(names[table])} names"
            )
    is_null = (events["kind"] == Kind.ALLOCATE) & (events["address"] == 0) & (events["size"] > 0)
    if is_null.any():
        number = int(np.argmax(is_null))
        raise BadArgument(
            f"make_trace: event {number} allocates {events['size'][number]} bytes at address 0, "
            "which means no memory; give each allocation in use an address of its own"
        )
    return Trace(events, **names)


def _checked(name: str, column: Any) -> np.ndarray:
    """The column as an array. Raises ValueError for numbers that the column cannot hold."""
    values = np.asarray(column)
    if values.dtype.kind == "f" and not hasattr(column, "dtype"):
        if all(isinstance(value, int) for value in column):  # NumPy rounds mixed large numbers
            values = np.asarray(column, EVENT[name])
    largest = max(Kind) if name == "kind" else np.iinfo(EVENT[name]).max
    if values.dtype.kind == "f" and not np.all(values == np.floor(values)):  # also for NaN
        raise ValueError("it has a number that is not whole")
    limit = float(largest + 1) if values.dtype.kind == "f" else largest + 1  # 2**64 is no uint64
    if values.size and not (0 <= values.min() and values.max() < limit):
        raise ValueError(f"it has a number that is not from 0 to {largest}")
    return values


def select_allocator(trace: Trace, allocator: str = "") -> Trace:
    """The events of one allocator, and the phases and the waits of streams.

    If `allocator` is empty, these are all events, but the trace may have only one device
    (`device N`, as in PyTorch's snapshots); with `all`, it may have several. Then an allocation at
    an address that another device uses gets an unused address. Raises BadArgument, which lists the
    allocators.
    """
    devices = {name.split(", pool (")[0] for name in trace.allocators if name.startswith("device ")}
    if allocator == "all" and len(devices) < 2:
        return trace
    selected = _core.select_events(
        record_bytes(trace.events), trace.allocators, allocator, trace.path or "the trace"
    )
    events = selected.view(EVENT)
    if len(events) == len(trace) and allocator != "all":
        return trace
    return replace(trace, events=events)


def read_trace(path: str | os.PathLike[str], *, progress: Progress | None = None) -> Trace:
    """Reads a trace in a format that `quarry info` lists. The first bytes tell the format.

    Needs 56 bytes of memory for each event. `progress` is called with the number of events read
    until now. Raises BadTrace if the file is not a trace, and ResourceFailed if it cannot be read.
    """
    read = _core.read_trace(os.fspath(path), progress)
    events = read.pop("events").view(EVENT)
    return Trace(events, path=os.fspath(path), **read)


def convert(
    path: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    target: str = "quarry",
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Writes a trace in Quarry's own format, or with `target` `rmm` in that of RMM's log.

    Its memory does not grow with the number of events; for RMM's log it grows with the allocations
    in use. RMM's log has only allocations, failures and frees, and no call sites. There an
    allocation at an address that another device uses gets an unused address. Returns the number of
    events written, the number of `skipped_events` that the format cannot hold, the format of the
    input, and what the reader skipped. `progress` is called with the number of events until now.
    Raises BadArgument for an unknown `target`, BadTrace if the file is not a trace, and
    ResourceFailed if a file cannot be read or written.
    """
    return _core.convert(os.fspath(path), os.fspath(output), target, progress)
