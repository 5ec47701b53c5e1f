# SPDX-License-Identifier: Apache-2.0
"""Reads a trace twice, in batches: first its extent, then what the charts need.

The memory is that of the allocations in use and of the pictures, however long the trace is.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from quarry._core import FreeSpace
from quarry.batches import read_batches
from quarry.errors import BadArgument
from quarry.report import analysis
from quarry.report.analysis import AddressMap, Axis, Curve, Density, Envelope, Groups
from quarry.report.failures import MAX_FAILURES, FailedRequest, Failure, InUse
from quarry.report.lifetimes import (
    Floats,
    Integers,
    Lifetimes,
    Matched,
    Matcher,
    Naturals,
    address_spaces,
)
from quarry.report.moments import MomentIndex, least_indexed
from quarry.report.segments import Segments
from quarry.report.window import TimeSpread, Window
from quarry.traces import Kind, Trace, record_bytes, select_allocator

BATCH = 1 << 18  # events
MAX_PHASES = 200  # that are marked

Step = Callable[[str], object]
Picture = np.ndarray
Booleans = npt.NDArray[np.bool_]


class Source:
    """A trace in memory or in a file, which is read again and again up to the window's end."""

    def __init__(
        self,
        trace: Trace | str | os.PathLike[str],
        allocator: str,
        window: Window | None = None,
    ) -> None:
        # Devices may have addresses in common, which `address_spaces` tells apart.
        is_selected = isinstance(trace, Trace) and allocator != "all"
        self._trace = select_allocator(trace, allocator) if is_selected else trace
        self._allocator = allocator
        self.window = window or Window()
        self.format = ""
        self.call_sites: list[str] = [""]
        self.streams: list[str] = [""]
        self.allocators: list[str] = [""]
        self.problems: list[str] = []
        self.problem_count = 0

    @property
    def path(self) -> str:
        return self._trace.path if isinstance(self._trace, Trace) else os.fspath(self._trace)

    def batches(self, step: Step) -> Iterator[Trace]:
        """The events from the first one on. `step` is called with a text before each batch."""
        read = origin = latest = 0
        for batch in self._all():
            if not len(batch):
                continue
            if read == 0:
                origin = latest = int(batch.time[0])
            times = np.maximum.accumulate(np.maximum(batch.time, np.uint64(latest)))
            kept = self.window.before_end(times, read, origin)
            latest = int(times[-1])
            read += kept
            step(f"{read:,} events")
            yield batch if kept == len(batch) else replace(batch, events=batch.events[:kept])
            if kept < len(batch):
                return

    def _all(self) -> Iterator[Trace]:
        if isinstance(self._trace, Trace):
            trace = self._trace
            self.format, self.call_sites = trace.format, trace.call_sites
            self.streams, self.allocators = trace.streams, trace.allocators
            self.problems, self.problem_count = trace.problems, trace.problem_count
            for first in range(0, len(trace), BATCH):
                yield replace(trace, events=trace.events[first : first + BATCH])
            return
        file = read_batches(self._trace, BATCH, allocator=self._allocator)
        try:
            for batch in file:
                self.call_sites = batch.call_sites
                self.streams, self.allocators = batch.streams, batch.allocators
                yield batch
        finally:  # also if the window ends before the file
            self.format = file.format
            self.problems, self.problem_count = file.problems, file.problem_count


@dataclass
class Extent:
    """What the first reading finds in the window."""

    events: int = 0  # up to the window's end
    first: int = 0  # the window's first event
    allocations: int = 0
    never_freed: int = 0
    unknown_frees: int = 0
    failure_count: int = 0
    failures: list[FailedRequest] = field(default_factory=list)  # the first ones
    most_in_use: int = 0
    peak_requested: int = 0
    peak_granted: int = 0
    peak_event: int = 0  # the first one with the most requested bytes in use
    largest: int = 0
    has_rounding: bool = False
    has_call_sites: bool = False
    origin: int = 0  # the time of the trace's first event
    first_time: int = 0  # of the window
    last_time: int = 0
    early_times: int = 0  # events, also before the window, with earlier times than one before them
    is_narrow: bool = False  # whether an axis of time squeezes most events into a corner
    sizes: Integers = field(default_factory=lambda: np.zeros(64, np.int64))  # allocations by class
    phase_count: int = 0
    phases: list[tuple[int, int, int]] = field(default_factory=list)  # event, time, call site
    has_reserved: bool = False
    least_reserved: int = 0  # of the running sum from 0 on
    most_reserved: int = 0
    uses_allocator: Booleans = field(default_factory=lambda: np.zeros(0, bool))  # by its number
    addresses: AddressMap = field(default_factory=lambda: analysis.AddressRanges().map())

    @property
    def recorded_peak(self) -> int:
        """Blocks from before the recording have an unreserve and no reserve."""
        return self.most_reserved - min(0, self.least_reserved)

    def time_axis(self) -> Axis | None:
        """None if the trace has no times."""
        if self.first_time == self.last_time:
            return None
        return analysis.time_axis(self.origin, self.last_time, self.first_time)

    def event_axis(self) -> Axis:
        return analysis.event_axis(self.events, self.first)


def event_range(source: Source, step: Step) -> tuple[int, int | None]:
    """The first event of a source's window, and the one behind its last; None is the trace's end.

    Reads the trace only if the window has a time.
    """
    begin, end = source.window.begin, source.window.end
    if not (begin and begin.is_time or end and end.is_time):
        return begin.value if begin else 0, end.value + 1 if end else None
    first, events, origin, latest = None, 0, 0, 0
    for batch in source.batches(lambda done: step(f"finding the range: {done}")):
        if not len(batch):
            continue
        if events == 0:
            origin = int(batch.time[0])
        times = np.maximum.accumulate(np.maximum(batch.time, np.uint64(latest)))
        latest = int(times[-1])
        low = source.window.before_begin(times, events, origin)
        if first is None and low < len(batch):
            first = events + low
        events += len(batch)
    return (events, None) if first is None else (first, events)


def reserved_changes(batch: Trace) -> Integers:
    """By how much each event changes the bytes that the recorded allocator holds."""
    change = np.zeros(len(batch), np.int64)
    is_reserve, is_unreserve = batch.kind == Kind.RESERVE, batch.kind == Kind.UNRESERVE
    change[is_reserve] = batch.size[is_reserve]
    change[is_unreserve] = -batch.size[is_unreserve].astype(np.int64)
    return change


def allocators_of(batch: Trace) -> Booleans:
    """Whether each allocator has allocations or blocks in a batch, by its number."""
    has_memory = (batch.kind != Kind.WAIT) & (batch.kind != Kind.PHASE)
    used: Booleans = np.bincount(batch.allocator[has_memory]) > 0
    return used


def joined_flags(one: Booleans, other: Booleans) -> Booleans:
    result = np.zeros(max(len(one), len(other)), bool)
    result[: len(one)] |= one
    result[: len(other)] |= other
    return result


def percent_of(part: np.ndarray, whole: np.ndarray) -> Floats:
    """100 % of nothing is all of it."""
    return np.where(whole > 0, 100 * np.minimum(part / np.maximum(whole, 1), 1), 100.0)


class RunningSum:
    """The sums of changes that come a batch at a time."""

    def __init__(self) -> None:
        self._sum = 0

    def add(self, changes: Integers) -> Integers:
        result = np.cumsum(changes) + self._sum
        self._sum = int(result[-1]) if len(result) else self._sum
        return result


def extent_of(source: Source, step: Step) -> Extent:
    """Reads the trace up to the window's end. Raises BadArgument if the window has no events."""
    found, matcher, ranges = Extent(), Matcher(), analysis.AddressRanges()
    requested, granted, count, reserved = (RunningSum() for _ in range(4))
    spread, window = TimeSpread(), source.window
    is_inside = False  # whether the window has begun

    def add(lifetimes: Lifetimes) -> None:
        lifetimes = lifetimes[lifetimes.end > found.first]
        ranges.add(lifetimes)
        found.allocations += len(lifetimes)
        found.largest = max(found.largest, int(lifetimes.size.max(initial=0)))
        found.has_rounding |= not np.array_equal(lifetimes.size, lifetimes.granted)
        found.has_call_sites |= bool(lifetimes.call_site.any())
        found.sizes += np.bincount(analysis.size_class(lifetimes.size), minlength=64)

    for batch in source.batches(lambda done: step(f"reading the trace: {done}")):
        if not len(batch):
            continue
        matched = matcher.add(batch)
        if found.events == 0:
            found.origin = int(matched.times[0])
        found.early_times += int(np.count_nonzero(batch.time < matched.times))
        low = 0 if is_inside else window.before_begin(matched.times, matched.first, found.origin)
        found.events, found.last_time = matcher.events, int(matched.times[-1])
        in_use, in_use_granted = requested.add(matched.requested), granted.add(matched.granted)
        counts, sums = count.add(matched.allocations), reserved.add(reserved_changes(batch))
        found.least_reserved = min(found.least_reserved, int(sums.min()))
        found.has_reserved |= bool(np.any(batch.kind == Kind.RESERVE))
        found.uses_allocator = joined_flags(found.uses_allocator, allocators_of(batch))
        if low == len(batch):
            continue
        if not is_inside:
            is_inside, found.first = True, matched.first + low
            found.first_time = int(matched.times[low])
        add(matched.ended)
        found.unknown_frees += int(np.count_nonzero(matched.unknown_frees >= found.first))
        spread.add(matched.times[low:])
        if (peak := int(in_use[low:].max())) > found.peak_requested:
            found.peak_requested = peak
            found.peak_event = matched.first + low + int(in_use[low:].argmax())
        found.peak_granted = max(found.peak_granted, int(in_use_granted[low:].max()))
        found.most_in_use = max(found.most_in_use, int(counts[low:].max()))
        found.most_reserved = max(found.most_reserved, int(sums[low:].max()))
        add_marks(found, batch, matched, low)
    if found.events and not is_inside:
        duration = (found.last_time - found.origin) / 1e9
        raise BadArgument(
            f"report: there are no events {window}; the last of {found.events:,} events "
            f"{'up to there ' if window.end else ''}is at {duration:g} s"
        )
    never_freed = matcher.finish()
    add(never_freed)
    found.never_freed = len(never_freed)
    found.addresses, found.is_narrow = ranges.map(), spread.is_narrow()
    found.peak_event = max(found.peak_event, found.first)
    return found


def add_marks(found: Extent, batch: Trace, matched: Matched, low: int) -> None:
    """Adds the failures and phases of a batch, from its event number `low` on."""
    failed = low + np.flatnonzero(batch.kind[low:] == Kind.FAIL)
    found.failure_count += len(failed)
    for event in failed[: MAX_FAILURES - len(found.failures)].tolist():
        request = batch.events[event]
        found.failures.append(
            FailedRequest(
                matched.first + event,
                int(matched.times[event]),
                int(request["size"]),
                int(request["granted"]),
                int(request["call_site"]),
            )
        )
    phases = low + np.flatnonzero(batch.kind[low:] == Kind.PHASE)
    found.phase_count += len(phases)
    for event in phases[: MAX_PHASES - len(found.phases)].tolist():
        time, site = int(matched.times[event]), int(batch.call_site[event])
        found.phases.append((matched.first + event, time, site))


@dataclass(frozen=True)
class Survey:
    """What the second reading finds."""

    requested: Envelope
    granted: Envelope
    recorded: Envelope
    used_share: Envelope  # of the bytes that the recorded allocator held, in percent
    largest_free: Envelope  # chunk of its blocks
    largest_share: Envelope  # of its free bytes, in percent
    moments: MomentIndex
    segments: MomentIndex  # the blocks that the recorded allocator held
    sums: Integers  # of all groups, as in `GroupTotals.sums`
    drawn: Lifetimes  # the allocations that are drawn one by one, oldest first
    others: dict[str, Picture]  # by the unit of an axis: the density of the other allocations
    groups: Groups
    failures: list[Failure]
    times: Naturals  # of the events that were asked for


def survey(
    source: Source, extent: Extent, axes: Sequence[Axis], count: int, events: Integers, step: Step
) -> Survey:
    """Reads a trace of this extent. `axes[0]` decides which `count` allocations are drawn. `events`
    are numbers of events, sorted, whose times are wanted."""
    matcher = Matcher()
    requested, granted, reserved = (RunningSum() for _ in range(3))
    curves = [Curve(extent.events, first=extent.first) for _ in range(6)]
    free_space = FreeSpace()
    largest = analysis.Largest(axes[0], count)
    totals = analysis.GroupTotals(extent.has_call_sites, extent.peak_event)
    failures = [InUse(request) for request in extent.failures]
    has_others = extent.allocations > count
    densities = [Density(axis, extent.addresses) for axis in axes if has_others]
    times = np.zeros(len(events), np.uint64)
    least = least_indexed(extent.sizes)
    moments = MomentIndex(extent.first, extent.events, extent.origin, least)
    segments, blocks = Segments(), MomentIndex(extent.first, extent.events, extent.origin)

    def add(lifetimes: Lifetimes) -> None:
        lifetimes = lifetimes[lifetimes.end > extent.first]
        moments.add(lifetimes)
        largest.add(lifetimes)
        totals.add(lifetimes)
        for density in densities:
            density.add(lifetimes)
        for failure in failures:
            failure.add(lifetimes)

    def add_curves(matched: Matched, batch: Trace) -> None:
        values = (
            requested.add(matched.requested),
            granted.add(matched.granted),
            reserved.add(reserved_changes(batch)) - min(0, extent.least_reserved),
        )
        share = percent_of(values[1], values[2])
        more = free_space_after(batch) if extent.has_reserved else ()
        for curve, value in zip(curves, (*values, share, *more), strict=False):
            curve.add(matched.first, matched.times, value)

    def free_space_after(batch: Trace) -> tuple[Naturals, Floats]:
        """The largest free chunk after each event, and its share of the free bytes."""
        spaces = address_spaces(batch.allocators)
        counts = free_space.add(record_bytes(batch.events), spaces).view(np.uint64)
        free, largest = counts[::2], counts[1::2]
        return largest, percent_of(largest, free)

    for batch in source.batches(lambda done: step(f"drawing the trace: {done}")):
        matched = matcher.add(batch)
        add(matched.ended)
        add_curves(matched, batch)
        moments.close(matcher.events)
        blocks.add(segments.add(batch, matched.first, matched.times))
        low, high = np.searchsorted(events, [matched.first, matcher.events])
        times[low:high] = matched.times[events[low:high] - matched.first]
    add(matcher.finish())
    moments.close()
    blocks.add(segments.finish(extent.events, extent.last_time))
    blocks.close()
    drawn = largest.lifetimes()
    for density in densities:
        density.add(drawn, weight=-1.0)
    units = [axis.unit for axis in axes]
    return Survey(
        requested=curves[0].envelope,
        granted=curves[1].envelope,
        recorded=curves[2].envelope,
        used_share=curves[3].envelope,
        largest_free=curves[4].envelope,
        largest_share=curves[5].envelope,
        moments=moments,
        segments=blocks,
        sums=totals.sums(),
        drawn=drawn,
        others={unit: density.picture() for unit, density in zip(units, densities, strict=False)},
        groups=totals.groups(source.call_sites),
        failures=[each.failure(source.call_sites) for each in failures],
        times=times,
    )
