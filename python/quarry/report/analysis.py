# SPDX-License-Identifier: Apache-2.0
"""What a report shows, computed from the columns of a trace. Nothing here draws."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from quarry.traces import Kind, Trace

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Lifetimes:
    """The allocations of a trace. Allocation i is in use from event `start[i]` to event `end[i]`.

    An allocation that is never freed ends at the number of events.
    """

    start: Integers
    end: Integers
    address: npt.NDArray[np.uint64]
    size: Integers
    granted: Integers
    call_site: npt.NDArray[np.uint32]
    unknown_frees: int

    def __len__(self) -> int:
        return len(self.start)

    def live_at(self, event: int) -> npt.NDArray[np.bool_]:
        """Which allocations are in use directly after an event."""
        return (self.start <= event) & (self.end > event)


def lifetimes_of(trace: Trace) -> Lifetimes:
    """Matches allocations with their frees. O(n log n), without a loop in Python."""
    kind = trace.kind
    events = np.flatnonzero((kind == Kind.ALLOCATE) | (kind == Kind.DEALLOCATE))
    address = trace.address[events]
    order = np.argsort(address, kind="stable")  # equal addresses stay in the order of the events
    events, address = events[order], address[order]
    is_allocation = kind[events] == Kind.ALLOCATE
    is_same_as_next = np.zeros(len(events), bool)
    is_same_as_next[:-1] = address[1:] == address[:-1]
    # The next event of the address ends the allocation: its free, or an allocation whose free the
    # trace does not have.
    end = np.full(len(events), len(trace), np.int64)
    end[:-1][is_same_as_next[:-1]] = events[1:][is_same_as_next[:-1]]
    follows_allocation = np.zeros(len(events), bool)
    follows_allocation[1:] = is_same_as_next[:-1] & is_allocation[:-1]
    unknown = int(np.count_nonzero(~is_allocation & ~follows_allocation))

    start, end, address = events[is_allocation], end[is_allocation], address[is_allocation]
    by_time = np.argsort(start)
    start, end, address = start[by_time], end[by_time], address[by_time]
    size = trace.size[start].astype(np.int64)
    granted = trace.granted[start].astype(np.int64)
    return Lifetimes(
        start,
        end,
        address,
        size,
        np.where(granted == 0, size, granted),
        trace.call_site[start],
        unknown,
    )


def live_bytes(lifetimes: Lifetimes, weights: Integers, events: int) -> Integers:
    """The sum of `weights` over the allocations in use, after each event."""
    change = np.zeros(events + 1, np.int64)
    change[lifetimes.start] = weights
    change[lifetimes.end[lifetimes.end < events]] -= weights[lifetimes.end < events]
    return np.cumsum(change[:events])


def recorded_reserved(trace: Trace) -> Integers | None:
    """The bytes that the recorded allocator held, after each event; None if not recorded."""
    change = np.zeros(len(trace), np.int64)
    is_reserve, is_unreserve = trace.kind == Kind.RESERVE, trace.kind == Kind.UNRESERVE
    if not is_reserve.any():
        return None
    change[is_reserve] = trace.size[is_reserve]
    change[is_unreserve] = -trace.size[is_unreserve].astype(np.int64)
    reserved = np.cumsum(change)
    # Blocks from before the recording have an unreserve and no reserve.
    return reserved - min(0, int(reserved.min()))


@dataclass(frozen=True)
class Axis:
    """The horizontal axis of the charts: seconds, or the events' numbers if there are no times."""

    positions: Floats
    title: str
    unit: str


def event_axis(events: int) -> Axis:
    """The events' numbers."""
    return Axis(np.arange(events, dtype=np.float64), "event", "")


def axis_of(trace: Trace, *, by_event: bool = False) -> Axis:
    """Seconds since the first event, unless the trace has no times or `by_event` is true."""
    time = trace.time
    if by_event or not len(trace) or time.max() == time.min():
        return event_axis(len(trace))
    seconds = (time - time.min()).astype(np.float64) / 1e9
    return Axis(np.maximum.accumulate(seconds), "time (s)", "s")


@dataclass(frozen=True)
class Envelope:
    """A curve with a bounded number of bins: the minimum and the maximum of each bin's events."""

    first: Integers  # the first event of each bin
    position: Floats  # of that event
    minimum: Floats
    maximum: Floats

    def on(self, axis: Axis) -> "Envelope":
        """The same curve on another axis."""
        return replace(self, position=axis.positions[self.first])


def bins_of(events: int, max_bins: int) -> Integers:
    """The first event of each bin. Each bin has about the same number of events."""
    count = min(events, max_bins)
    return np.arange(count, dtype=np.int64) * events // max(count, 1)


def envelope(axis: Axis, values: npt.NDArray[np.generic], max_bins: int = 1 << 16) -> Envelope:
    """The curve of `values`, of which no peak is lost."""
    first = bins_of(len(values), max_bins)
    if not len(first):
        return Envelope(first, *(np.zeros(0),) * 3)
    return Envelope(
        first,
        axis.positions[first],
        np.minimum.reduceat(values, first).astype(np.float64),
        np.maximum.reduceat(values, first).astype(np.float64),
    )


@dataclass(frozen=True)
class AddressMap:
    """Maps addresses to offsets without the gaps that no allocation uses."""

    start: npt.NDArray[np.uint64]  # of each range
    offset: Integers  # of the range's start
    total: int

    def offset_of(self, address: npt.NDArray[np.uint64]) -> Integers:
        index = np.searchsorted(self.start, address, "right") - 1
        return self.offset[index] + (address - self.start[index]).astype(np.int64)


def address_map(lifetimes: Lifetimes, min_gap: int = 1 << 21) -> AddressMap:
    """Joins the addresses in use. A gap of `min_gap` bytes or more between them is left out."""
    if not len(lifetimes):
        return AddressMap(np.zeros(1, np.uint64), np.zeros(1, np.int64), 1)
    order = np.argsort(lifetimes.address)
    base = lifetimes.address[order]
    end = np.maximum.accumulate(base + lifetimes.granted[order].astype(np.uint64))
    is_new = np.ones(len(base), bool)
    is_new[1:] = (base[1:] > end[:-1]) & (base[1:] - np.minimum(end[:-1], base[1:]) >= min_gap)
    first = np.flatnonzero(is_new)
    last = np.append(first[1:], len(base)) - 1
    lengths = (end[last] - base[first]).astype(np.int64)
    offset = np.concatenate([[0], np.cumsum(lengths)])
    return AddressMap(base[first], offset[:-1], max(int(offset[-1]), 1))


def largest_lifetimes(lifetimes: Lifetimes, axis: Axis, count: int) -> Integers:
    """The `count` allocations that cover the largest areas of the picture, oldest first."""
    if len(lifetimes) <= count:
        return np.arange(len(lifetimes))
    positions = np.append(axis.positions, axis.positions[-1])
    duration = positions[lifetimes.end] - positions[lifetimes.start]
    duration = np.maximum(duration, (positions[-1] - positions[0]) * 1e-6)
    area = duration * lifetimes.granted
    return np.sort(np.argpartition(area, len(area) - count)[-count:])


def density(
    lifetimes: Lifetimes,
    chosen: npt.NDArray[np.bool_],
    axis: Axis,
    addresses: AddressMap,
    width: int = 1200,
    height: int = 600,
) -> npt.NDArray[np.float32]:
    """The share of each cell of the picture that the chosen allocations cover, from 0 to 1.

    Row 0 has the lowest addresses. Adds each rectangle to the corners of a table of differences, so
    the time does not depend on the rectangles' areas. Rectangles thinner than a cell count with
    their share of it.
    """
    table = np.zeros((height + 1, width + 1))
    if not chosen.any():
        return table[:height, :width].astype(np.float32)
    positions = np.append(axis.positions, axis.positions[-1])
    scale_x = width / max(positions[-1] - positions[0], 1e-300)
    scale_y = height / addresses.total
    left = (positions[lifetimes.start[chosen]] - positions[0]) * scale_x
    right = (positions[lifetimes.end[chosen]] - positions[0]) * scale_x
    low = np.asarray(addresses.offset_of(lifetimes.address[chosen]) * scale_y, np.float64)
    high = low + lifetimes.granted[chosen] * scale_y
    column, last_column = cells(left, right, width)
    row, last_row = cells(low, high, height)
    share = (right - left) / (last_column - column) * ((high - low) / (last_row - row))
    for rows, columns, sign in (
        (row, column, 1),
        (row, last_column, -1),
        (last_row, column, -1),
        (last_row, last_column, 1),
    ):
        flat = rows * (width + 1) + columns
        table += sign * np.bincount(flat, share, table.size).reshape(table.shape)
    covered = table.cumsum(0).cumsum(1)[:height, :width]
    shown: npt.NDArray[np.float32] = np.clip(covered, 0, 1).astype(np.float32)
    return shown


def cells(begin: Floats, end: Floats, count: int) -> tuple[Integers, Integers]:
    """The cells that the intervals touch: the first one, and the one behind the last."""
    first = np.clip(np.floor(begin), 0, count - 1).astype(np.int64)
    last = np.clip(np.ceil(end), first + 1, count).astype(np.int64)
    return first, last


@dataclass(frozen=True)
class Groups:
    """Bytes by call site, or by size if the trace has no call sites. The largest groups first."""

    title: str
    names: list[str]
    at_peak: list[int]
    total: list[int]
    allocations: list[int]
    color_of: npt.NDArray[np.int64]  # of each allocation: the index of its group; -1 means others


def groups_of(trace: Trace, lifetimes: Lifetimes, peak_event: int, count: int = 10) -> Groups:
    """The groups with the most bytes in use at the peak; of equal ones those with more in total."""
    if lifetimes.call_site.any():
        title, names = "call site", [name or "(unknown)" for name in trace.call_sites]
        group = lifetimes.call_site.astype(np.int64)
    else:
        title, names = "size", size_names()
        group = np.frexp(np.maximum(lifetimes.size, 1).astype(np.float64))[1].astype(np.int64) - 1
    live = lifetimes.live_at(peak_event)
    weights = lifetimes.size.astype(np.float64)
    at_peak = np.bincount(group[live], weights[live], len(names))
    total = np.bincount(group, weights, len(names))
    allocations = np.bincount(group, minlength=len(names))
    order = [i for i in np.lexsort((-total, -at_peak)) if total[i] > 0][:count]
    rank = np.full(len(names), -1, np.int64)
    rank[order] = np.arange(len(order))
    return Groups(
        title,
        [names[i] for i in order],
        [int(at_peak[i]) for i in order],
        [int(total[i]) for i in order],
        [int(allocations[i]) for i in order],
        rank[group],
    )


def size_names() -> list[str]:
    """The names of the powers of two: an allocation belongs to the largest that it reaches."""
    units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]

    def text(exponent: int) -> str:
        return f"{1 << exponent % 10} {units[exponent // 10]}"

    return [f"{text(e)} to {text(e + 1)}" for e in range(59)]
