# SPDX-License-Identifier: Apache-2.0
"""Matches allocations with their frees, a batch of events at a time."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from quarry.errors import BadArgument
from quarry.sizes import format_size
from quarry.traces import Kind, Trace

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Naturals = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Lifetimes:
    """Allocations of a trace. Allocation i is in use from event `start[i]` to event `end[i]`.

    An allocation that is never freed ends at the number of events. `start_time` and `end_time` are
    the times of these events in nanoseconds, and never decrease from one event to the next.
    """

    start: Integers
    end: Integers
    start_time: Naturals
    end_time: Naturals
    address: Naturals
    size: Integers
    granted: Integers
    call_site: npt.NDArray[np.uint32]
    stream: npt.NDArray[np.uint32]
    allocator: npt.NDArray[np.uint32]

    def __len__(self) -> int:
        return len(self.start)

    def __getitem__(self, chosen: Any) -> "Lifetimes":
        return Lifetimes(*(getattr(self, item.name)[chosen] for item in fields(self)))

    def live_at(self, event: int) -> npt.NDArray[np.bool_]:
        """Which allocations are in use directly after an event."""
        return (self.start <= event) & (self.end > event)


def joined(parts: list[Lifetimes]) -> Lifetimes:
    """All allocations of the parts, of which there is one at least."""
    columns: Any = (
        np.concatenate([getattr(part, item.name) for part in parts]) for item in fields(Lifetimes)
    )
    return Lifetimes(*columns)


def no_lifetimes() -> Lifetimes:
    types = [np.int64] * 2 + [np.uint64] * 3 + [np.int64] * 2 + [np.uint32] * 3
    columns: Any = (np.zeros(0, each) for each in types)
    return Lifetimes(*columns)


@dataclass(frozen=True)
class Matched:
    """A batch of events after `Matcher.add`. The arrays of changes have a value for each event."""

    ended: Lifetimes  # allocations that end in this batch
    times: Naturals  # of the events; they never decrease
    first: int  # the number of the first event
    requested: Integers  # by how much the requested bytes in use change
    granted: Integers
    allocations: Integers
    unknown_frees: Integers  # the numbers of the frees of addresses that are not in use


def address_spaces(allocators: Sequence[str]) -> list[int]:
    """The number of each allocator's address space. Devices may use equal addresses; a device has
    its private pools (`device 0, pool (0, 1)`). All other allocators share the first device's. The
    numbers stay if names are added."""
    numbers: dict[str, int] = {}

    def number_of(name: str) -> int:
        if not name.startswith("device "):
            return 0
        return numbers.setdefault(name.split(", pool (")[0], len(numbers))

    return [number_of(name) for name in allocators]


MAX_SIZE = 1 << 46  # bytes of an allocation or a block: no resource can serve more


def check_sizes(batch: Trace, first: int) -> None:
    """Raises BadArgument if an allocation or a block is larger than `MAX_SIZE`: sums of such
    sizes exceed 63 bits. The first event of the batch is number `first`."""
    size = np.maximum(batch.size, batch.granted)
    is_memory = np.isin(batch.kind, [Kind.ALLOCATE, Kind.RESERVE, Kind.UNRESERVE])
    wrong = np.flatnonzero(is_memory & (size > MAX_SIZE))
    if len(wrong):
        event = int(wrong[0])
        raise BadArgument(
            f"report: event {first + event:,} has {size[event]:,} bytes, but memory has at most "
            f"{format_size(MAX_SIZE)}; the event is damaged, and the shown range must end before it"
        )


_NOT_ENDED = np.iinfo(np.int64).max


class Matcher:
    """Matches allocations with their frees. Its memory is that of the allocations in use."""

    def __init__(self) -> None:
        self.events = 0  # until now
        self.unknown_frees = 0
        self._live = no_lifetimes()  # in the order of their starts
        self._time = 0

    def add(self, batch: Trace) -> Matched:
        """Matches the next events. O(n log n) for the allocations in use and the events. Raises
        BadArgument if an allocation has more than `MAX_SIZE` bytes."""
        first, count = self.events, len(batch)
        check_sizes(batch, first)
        times = np.maximum.accumulate(np.maximum(batch.time, np.uint64(self._time)))
        self._time = int(times[-1]) if count else self._time
        self.events += count
        kind = batch.kind
        is_chosen = (kind == Kind.ALLOCATE) | (kind == Kind.DEALLOCATE)
        chosen = np.flatnonzero(is_chosen & (batch.address != 0))  # null is no memory
        size = batch.size[chosen].astype(np.int64)
        granted = batch.granted[chosen].astype(np.int64)
        end = np.full(len(chosen), _NOT_ENDED, np.int64)
        new = Lifetimes(
            chosen + first,
            end,
            times[chosen],
            np.zeros(len(chosen), np.uint64),
            batch.address[chosen],
            size,
            np.where(granted == 0, size, granted),
            batch.call_site[chosen],
            batch.stream[chosen],
            batch.allocator[chosen],
        )
        everything = joined([self._live, new])
        is_allocation = np.ones(len(everything), bool)
        is_allocation[len(self._live) :] = kind[chosen] == Kind.ALLOCATE
        # The next event of an address ends an allocation: its free, or an allocation whose free the
        # trace does not have. Equal addresses stay in the order of the events.
        spaces = np.array([*address_spaces(batch.allocators), 0], np.int64)
        if spaces.any():
            space = spaces[np.minimum(everything.allocator, len(spaces) - 1)]
            order = np.lexsort((everything.address, space))  # stable, too
        else:
            space = np.zeros(len(everything), np.int64)
            order = np.argsort(everything.address, kind="stable")
        address, space = everything.address[order], space[order]
        is_same = (address[1:] == address[:-1]) & (space[1:] == space[:-1])
        is_same_as_next = np.flatnonzero(is_same)
        before, after = order[is_same_as_next], order[is_same_as_next + 1]
        before, after = before[is_allocation[before]], after[is_allocation[before]]
        everything.end[before] = everything.start[after]
        everything.end_time[before] = everything.start_time[after]
        ends_one = np.zeros(len(everything), bool)
        ends_one[after] = True
        unknown = everything.start[~is_allocation & ~ends_one]
        self.unknown_frees += len(unknown)

        is_live = is_allocation & (everything.end == _NOT_ENDED)
        ended = everything[is_allocation & ~is_live]
        begun = everything[len(self._live) :][is_allocation[len(self._live) :]]
        self._live = everything[is_live]
        changes = [np.zeros(count, np.int64) for _ in range(3)]
        for change, name in zip(changes, ("size", "granted", ""), strict=True):
            change[begun.start - first] += getattr(begun, name) if name else 1
            change[ended.end - first] -= getattr(ended, name) if name else 1
        return Matched(ended, times, first, *changes, unknown)

    def finish(self, time: int | None = None) -> Lifetimes:
        """The allocations that are never freed. They end at `time`, or at the last event's."""
        self._live.end[:] = self.events
        self._live.end_time[:] = self._time if time is None else time
        return self._live


def lifetimes_of(trace: Trace) -> Lifetimes:
    """All allocations of a trace, in their order."""
    matcher = Matcher()
    found = joined([matcher.add(trace).ended, matcher.finish()])
    return found[np.argsort(found.start)]
