# SPDX-License-Identifier: Apache-2.0
"""What a report shows, computed from batches of a trace. Nothing here draws."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from quarry.report.lifetimes import Floats, Integers, Lifetimes, Naturals, joined, no_lifetimes


UNKNOWN = "(unknown)"  # a call site without a name


@dataclass(frozen=True)
class Axis:
    """The horizontal axis of the charts: seconds, or the events' numbers if there are no times."""

    title: str
    unit: str  # "s", or empty
    first: float = 0.0
    last: float = 1.0  # the right end of the charts: more than `first`
    origin: int = 0  # the time that is 0 seconds

    def at(self, events: npt.ArrayLike, times: npt.ArrayLike) -> Floats:
        """The positions of events with these numbers and times."""
        if not self.unit:
            return np.asarray(events, np.float64)
        return (np.asarray(times, np.uint64) - np.uint64(self.origin)).astype(np.float64) / 1e9

    def begins(self, lifetimes: Lifetimes) -> Floats:
        """The positions where allocations begin, or where the axis begins if that is later."""
        return np.maximum(self.at(lifetimes.start, lifetimes.start_time), self.first)

    def ends(self, lifetimes: Lifetimes) -> Floats:
        """The positions where allocations end, or where the axis ends if that is earlier."""
        return np.minimum(self.at(lifetimes.end, lifetimes.end_time), self.last)


def event_axis(events: int, first: int = 0) -> Axis:
    """The events' numbers, from `first` on."""
    last = max(float(events - 1), first + 1e-9) if events else 1.0
    return Axis("event", "", float(first), last)


def time_axis(origin: int, last: int, first: int | None = None) -> Axis:
    """Seconds since the time `origin`, in nanoseconds. The axis is from `first` to `last`."""
    begin = 0 if first is None else first - origin
    return Axis("time (s)", "s", begin / 1e9, (last - origin) / 1e9, origin)


@dataclass(frozen=True)
class Envelope:
    """A curve with a bounded number of bins: the minimum and the maximum of each bin's events."""

    first: Integers  # the first event of each bin
    time: Naturals  # of that event
    minimum: Floats
    maximum: Floats
    top: Integers  # the first event with the bin's maximum


def bins_of(events: int, max_bins: int, first: int = 0) -> Integers:
    """The first event of each bin of the events from `first` on. Each bin has about the same number
    of events."""
    count = min(events - first, max_bins)
    return first + np.arange(count, dtype=np.int64) * (events - first) // max(count, 1)


class Curve:
    """Collects an envelope of values that come a batch at a time. No peak is lost.

    The envelope has the events from `first` on.
    """

    def __init__(self, events: int, max_bins: int = 1 << 16, first: int = 0) -> None:
        self._first = first
        bins = bins_of(events, max_bins, first)
        self.envelope = Envelope(
            bins,
            np.zeros(len(bins), np.uint64),
            np.full(len(bins), np.inf),
            np.full(len(bins), -np.inf),
            bins.copy(),
        )

    def add(self, event: int, times: Naturals, values: npt.NDArray[np.generic]) -> None:
        """Adds the values of the events from number `event` on."""
        early = max(self._first - event, 0)
        event, times, values = event + early, times[early:], values[early:]
        if not len(values):
            return
        curve = self.envelope
        low, high = np.searchsorted(curve.first, [event, event + len(values) - 1], "right")
        chosen = slice(low - 1, high)
        start = np.maximum(curve.first[chosen] - event, 0)
        curve.minimum[chosen] = np.minimum(
            curve.minimum[chosen], np.minimum.reduceat(values, start)
        )
        maximum = np.maximum.reduceat(values, start)
        lengths = np.diff(start, append=len(values))
        is_top = values == np.repeat(maximum, lengths)
        number = np.where(is_top, np.arange(len(values)), len(values))
        top = event + np.minimum.reduceat(number, start)
        is_higher = maximum > curve.maximum[chosen]
        curve.top[chosen][is_higher] = top[is_higher]
        curve.maximum[chosen] = np.maximum(curve.maximum[chosen], maximum)
        begins_here = curve.first[chosen] >= event
        curve.time[chosen][begins_here] = times[start[begins_here]]


@dataclass(frozen=True)
class AddressMap:
    """Maps addresses to offsets without the gaps that no allocation uses."""

    start: Naturals  # of each range
    offset: Integers  # of the range's start
    total: int

    def offset_of(self, address: Naturals) -> Integers:
        index = np.searchsorted(self.start, address, "right") - 1
        return self.offset[index] + (address - self.start[index]).astype(np.int64)


class AddressRanges:
    """Joins the addresses of allocations. Keeps gaps of `min_gap` bytes or more apart."""

    def __init__(self, min_gap: int = 1 << 21) -> None:
        self._min_gap = min_gap
        self._start = self._end = np.zeros(0, np.uint64)

    def add(self, lifetimes: Lifetimes) -> None:
        if not len(lifetimes):
            return
        base = np.concatenate([self._start, lifetimes.address])
        end = np.concatenate([self._end, lifetimes.address + lifetimes.granted.astype(np.uint64)])
        order = np.argsort(base)
        base, end = base[order], np.maximum.accumulate(end[order])
        is_new = np.ones(len(base), bool)
        gap = base[1:] - np.minimum(end[:-1], base[1:])
        is_new[1:] = (base[1:] > end[:-1]) & (gap >= self._min_gap)
        first = np.flatnonzero(is_new)
        self._start, self._end = base[first], end[np.append(first[1:], len(base)) - 1]

    def map(self) -> AddressMap:
        if not len(self._start):
            return AddressMap(np.zeros(1, np.uint64), np.zeros(1, np.int64), 1)
        lengths = (self._end - self._start).astype(np.int64)
        offset = np.concatenate([[0], np.cumsum(lengths)])
        return AddressMap(self._start, offset[:-1], max(int(offset[-1]), 1))


class Largest:
    """Keeps the `count` allocations that cover the largest areas of the picture."""

    def __init__(self, axis: Axis, count: int) -> None:
        self._axis, self._count = axis, count
        self._kept = no_lifetimes()

    def add(self, lifetimes: Lifetimes) -> None:
        self._kept = joined([self._kept, lifetimes])
        if len(self._kept) > 2 * self._count:
            self._reduce()

    def lifetimes(self) -> Lifetimes:
        """These allocations, oldest first."""
        self._reduce()
        return self._kept[np.argsort(self._kept.start)]

    def _reduce(self) -> None:
        kept, axis = self._kept, self._axis
        if len(kept) <= self._count:
            return
        duration = axis.ends(kept) - axis.begins(kept)
        area = np.maximum(duration, (axis.last - axis.first) * 1e-6) * kept.granted
        self._kept = kept[np.argpartition(area, len(area) - self._count)[-self._count :]]


class Density:
    """The share of each cell of the picture that allocations cover.

    Adds each rectangle to the corners of a table of differences, so the time does not depend on the
    rectangles' areas. Rectangles thinner than a cell count with their share of it.
    """

    def __init__(
        self, axis: Axis, addresses: AddressMap, width: int = 1200, height: int = 600
    ) -> None:
        self._axis, self._addresses = axis, addresses
        self._table = np.zeros((height + 1, width + 1))

    def add(self, lifetimes: Lifetimes, weight: float = 1.0) -> None:
        """Adds the allocations; removes them with the weight -1."""
        if not len(lifetimes):
            return
        axis, table = self._axis, self._table
        height, width = table.shape[0] - 1, table.shape[1] - 1
        scale_x = width / max(axis.last - axis.first, 1e-300)
        scale_y = height / self._addresses.total
        left = (axis.begins(lifetimes) - axis.first) * scale_x
        right = (axis.ends(lifetimes) - axis.first) * scale_x
        low = np.asarray(self._addresses.offset_of(lifetimes.address) * scale_y, np.float64)
        high = low + lifetimes.granted * scale_y
        column, last_column = cells(left, right, width)
        row, last_row = cells(low, high, height)
        share = (right - left) / (last_column - column) * ((high - low) / (last_row - row))
        for rows, columns, sign in (
            (row, column, weight),
            (row, last_column, -weight),
            (last_row, column, -weight),
            (last_row, last_column, weight),
        ):
            flat = rows * (width + 1) + columns
            table += sign * np.bincount(flat, share, table.size).reshape(table.shape)

    def picture(self) -> npt.NDArray[np.float32]:
        """The shares from 0 to 1. Row 0 has the lowest addresses."""
        height, width = self._table.shape[0] - 1, self._table.shape[1] - 1
        covered = self._table.cumsum(0).cumsum(1)[:height, :width]
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
    numbers: Integers  # of the groups: call sites, or exponents of sizes

    def color_of(self, lifetimes: Lifetimes) -> Integers:
        """The index of each allocation's group; -1 means others."""
        keys = group_keys(lifetimes, self.title == "call site")
        rank = np.full(max(keys.max(initial=0), self.numbers.max(initial=0)) + 1, -1, np.int64)
        rank[self.numbers] = np.arange(len(self.numbers))
        return rank[keys]


def group_keys(lifetimes: Lifetimes, by_call_site: bool) -> Integers:
    if by_call_site:
        return lifetimes.call_site.astype(np.int64)
    return size_class(lifetimes.size)


def size_class(size: Integers) -> Integers:
    """The exponent of the largest power of two that a size reaches; 0 for 0 bytes."""
    return np.frexp(np.maximum(size, 1).astype(np.float64))[1].astype(np.int64) - 1


class GroupTotals:
    """Adds up allocations by call site or by size."""

    def __init__(self, by_call_site: bool, peak_event: int) -> None:
        self._by_call_site, self._peak_event = by_call_site, peak_event
        self._sums = np.zeros((3, 0))  # bytes at the peak, bytes in total, allocations

    def add(self, lifetimes: Lifetimes) -> None:
        if not len(lifetimes):
            return
        keys = group_keys(lifetimes, self._by_call_site)
        count = max(int(keys.max()) + 1, self._sums.shape[1])
        sums = np.zeros((3, count))
        sums[:, : self._sums.shape[1]] = self._sums
        live, size = lifetimes.live_at(self._peak_event), lifetimes.size.astype(np.float64)
        sums[0] += np.bincount(keys[live], size[live], count)
        sums[1] += np.bincount(keys, size, count)
        sums[2] += np.bincount(keys, minlength=count)
        self._sums = sums

    def sums(self) -> Integers:
        """The bytes in use at the peak, the bytes in total and the allocations: three rows, with a
        column for each number of a call site or exponent of sizes."""
        return self._sums.astype(np.int64)

    def groups(self, call_sites: list[str], count: int = 10) -> Groups:
        """The groups with the most bytes in use at the peak; of equal ones those with more in
        total."""
        at_peak, total, allocations = self._sums
        order = [i for i in np.lexsort((-total, -at_peak)) if total[i] > 0][:count]
        names = call_sites if self._by_call_site else size_names()
        return Groups(
            "call site" if self._by_call_site else "size",
            [(names[i] if i < len(names) else "") or UNKNOWN for i in order],
            [int(at_peak[i]) for i in order],
            [int(total[i]) for i in order],
            [int(allocations[i]) for i in order],
            np.array(order, np.int64),
        )


def size_names() -> list[str]:
    """The names of the powers of two: an allocation belongs to the largest that it reaches."""
    units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]

    def text(exponent: int) -> str:
        return f"{1 << exponent % 10} {units[exponent // 10]}"

    return [f"{text(e)} to {text(e + 1)}" for e in range(59)]
