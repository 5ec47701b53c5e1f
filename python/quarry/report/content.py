# SPDX-License-Identifier: Apache-2.0
"""The content of a report: curves, blocks, groups and the summary. page.py and png.py draw it."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from quarry.names import printable
from quarry.options import STRATEGIES
from quarry.replays import ReplayResult
from quarry.report import texts
from quarry.report.analysis import AddressMap, Axis, Envelope, Groups
from quarry.report.failures import Failure
from quarry.report.lifetimes import Floats, Integers, Lifetimes, Naturals
from quarry.report.moments import MomentIndex
from quarry.report.survey import MAX_PHASES, Extent, Picture, Source, extent_of, survey
from quarry.report.window import Window
from quarry.sizes import format_size
from quarry.traces import Trace
from quarry.tuning import TuneResult

MAX_BLOCKS = 100_000  # that are drawn one by one


@dataclass(frozen=True)
class ReplayCurves:
    """What a pool of Quarry held during a replay."""

    label: str
    events: Integers  # the first event of each sample
    ends: Integers  # the event behind its last one
    times: Naturals  # of the first events
    reserved: Floats
    free: Floats
    largest_free: Floats
    fragments: bool  # whether the pool counts its largest free chunk and depends on it
    result: ReplayResult


@dataclass(frozen=True)
class Content:
    """All that a report shows. Only the indices grow with the number of events."""

    title: str
    axes: list[Axis]  # the first one is that of the picture; the page can switch to the others
    origin: int  # the time of the trace's first event, in nanoseconds
    first: int  # the first event
    events: int  # the number of the last event, plus 1
    is_part: bool  # whether the report shows a part of the trace only
    peak_event: int  # the first one with the most requested bytes in use
    peak_requested: int
    requested: Envelope
    granted: Envelope | None  # None if it equals `requested`
    recorded: Envelope | None
    used_share: Envelope | None  # of the bytes that the recorded allocator held, in percent
    largest_free: Envelope | None  # chunk of the recorded allocator's blocks, in bytes
    largest_share: Envelope | None  # of all its free bytes, in percent
    moments: MomentIndex
    segments: MomentIndex
    streams: list[str]
    allocators: list[str]
    used_allocators: list[int]  # the numbers of those that have allocations or blocks
    replays: list[ReplayCurves]
    allocations: int
    drawn: Lifetimes  # the allocations that are drawn one by one
    others: dict[str, Picture]  # by the unit of an axis: the density of the other allocations
    addresses: AddressMap
    groups: Groups
    sums: Integers  # of all groups, as in `GroupTotals.sums`
    call_sites: list[str]
    phases: list[tuple[int, int, str]]  # the event, its time and the name
    failures: list[Failure]  # of the recording
    summary: list[tuple[str, str]]
    problems: list[str]  # with a line for those that are not listed
    read_problems: list[str]
    problem_count: int
    sweep: TuneResult | None

    @property
    def axis(self) -> Axis:
        return self.axes[0]

    @property
    def nothing(self) -> str:
        """Why the charts are empty; empty if they are not."""
        if not self.events:
            return "The trace has no events."
        return "" if self.allocations else "The trace has no allocations."

    def bounds(self, axis: Axis) -> tuple[Floats, Floats, Floats, Floats]:
        """Left, right, bottom and height of the drawn allocations in the picture of blocks."""
        drawn = self.drawn
        return (
            axis.begins(drawn),
            axis.ends(drawn),
            self.addresses.offset_of(drawn.address).astype(np.float64),
            drawn.granted.astype(np.float64),
        )


def make_content(
    trace: Trace | str | os.PathLike[str],
    replays: Sequence[ReplayResult] = (),
    *,
    sweep: TuneResult | None = None,
    title: str = "",
    by_event: bool = False,
    allocator: str = "all",
    window: Window | None = None,
    step: Callable[[str], object] = lambda name: None,
) -> Content:
    """Computes all that a report shows. Reads the trace twice, in batches; a file is not kept in
    memory. `step` is called with the name of each step."""
    source = Source(trace, allocator, window)
    extent = extent_of(source, step)
    axes = [extent.event_axis()]
    if not by_event and (axis := extent.time_axis()):
        axes.insert(len(axes) if extent.is_narrow else 0, axis)
    sampled = [sampled_events(replay, extent.events) for replay in replays]
    events = np.unique(np.concatenate([np.zeros(0, np.int64), *sampled]))
    found = survey(source, extent, axes, MAX_BLOCKS, events, step)
    curves = [
        replay_curves(replay, chosen, found.times[np.searchsorted(events, chosen)])
        for replay, chosen in zip(replays, sampled, strict=True)
    ]
    summary = summary_of(extent, source)
    for replay, curve in zip(replays, curves, strict=True):
        shown = None if source.window == Window() else curve
        summary += summary_of_replay(replay, shown, extent.first)
    names = source.call_sites
    return Content(
        title=printable(title or os.path.basename(source.path) or "trace"),
        axes=axes,
        origin=extent.origin,
        first=extent.first,
        events=extent.events,
        is_part=source.window != Window(),
        peak_event=extent.peak_event,
        peak_requested=extent.peak_requested,
        requested=found.requested,
        granted=found.granted if extent.has_rounding else None,
        recorded=found.recorded if extent.has_reserved else None,
        used_share=found.used_share if extent.has_reserved else None,
        largest_free=found.largest_free if extent.has_reserved else None,
        largest_share=found.largest_share if extent.has_reserved else None,
        moments=found.moments,
        segments=found.segments,
        streams=source.streams,
        allocators=source.allocators,
        used_allocators=np.flatnonzero(extent.uses_allocator).tolist(),
        replays=curves,
        allocations=extent.allocations,
        drawn=found.drawn,
        others=found.others,
        addresses=extent.addresses,
        groups=found.groups,
        sums=found.sums,
        call_sites=names,
        phases=[
            (event, time, names[site] if site < len(names) else "")
            for event, time, site in extent.phases
        ],
        failures=found.failures,
        summary=summary,
        problems=problems_of(source.problems, source.problem_count),
        read_problems=source.problems,
        problem_count=source.problem_count,
        sweep=sweep,
    )


def sampled_events(replay: ReplayResult, events: int) -> Integers:
    """The number of the first event of each sample, up to the last event that is shown. A sample
    has the maxima of its events, so a curve that began at its last event would be late.

    A replay may have samples of the shown range only, or of the whole trace.
    """
    ends = replay.samples["event"].astype(np.int64)
    begin = (replay.settings.get("sampled") or (0, None))[0]
    first = np.concatenate([np.full(min(len(ends), 1), begin, np.int64), ends[:-1]])
    return first[first < events]


def replay_curves(replay: ReplayResult, events: Integers, times: Naturals) -> ReplayCurves:
    samples = replay.samples[: len(events)]
    reserved = samples["reserved"].astype(np.float64)
    free = np.maximum(reserved - samples["granted"], 0.0)
    largest = np.minimum(samples["largest_free"].astype(np.float64), free)
    fragments = STRATEGIES.get(replay.settings.get("strategy", "?"), {}).get("coalesces", True)
    label, ends = texts.setting_text(replay.settings), samples["event"].astype(np.int64)
    return ReplayCurves(label, events, ends, times, reserved, free, largest, fragments, replay)


def problems_of(problems: list[str], count: int) -> list[str]:
    if count <= len(problems):
        return problems
    return [*problems, f"{count - len(problems):,} more problems are not listed"]


def summary_of(extent: Extent, source: Source) -> list[tuple[str, str]]:
    shown, whole = extent.events - extent.first, source.window == Window()
    rows: list[tuple[str, Any]] = [("events", f"{shown:,}"), ("format", source.format)]
    if not extent.events:
        return rows
    if not whole:
        rows.append(("range", f"events {extent.first:,} to {extent.events - 1:,} of the trace"))
    if axis := extent.time_axis():
        rows.append(("duration", duration_text(axis.last - axis.first)))
    rows += [
        ("allocations", f"{extent.allocations:,}"),
        ("never freed" if whole else "not freed in the range", f"{extent.never_freed:,}"),
        ("failed allocations", f"{extent.failure_count:,}"),
        ("frees of unknown addresses", f"{extent.unknown_frees:,}"),
        ("most allocations in use", f"{extent.most_in_use:,}"),
        ("peak of the requested bytes", exact_size(extent.peak_requested)),
        ("peak of the granted bytes", exact_size(extent.peak_granted)),
    ]
    if extent.allocations:
        rows.append(("largest allocation", exact_size(extent.largest)))
    if extent.early_times:
        rows.append(
            ("events with earlier times than events before them", f"{extent.early_times:,}")
        )
    if phases := extent.phase_count:
        marked = f"; the first {MAX_PHASES:,} are marked" if phases > MAX_PHASES else ""
        rows.append(("phases", f"{phases:,}{marked}"))
    if extent.has_reserved:
        rows.append(("recorded peak of the reserved bytes", exact_size(extent.recorded_peak)))
    return rows


def summary_of_replay(
    replay: ReplayResult, shown: ReplayCurves | None, first: int
) -> list[tuple[str, str]]:
    """A replay serves the whole trace. If the report shows a part, `shown` is the replay's curves,
    and `first` the part's first event."""
    pool, name = replay.pool, f"Quarry, {texts.setting_text(replay.settings)}"
    rows = []
    if shown:
        inside = shown.reserved[shown.ends > first]
        if len(inside):
            rows.append((f"{name}: peak of the reserved bytes", exact_size(inside.max())))
        name += " (whole trace)"
    rows += [
        (f"{name}: peak of the reserved bytes", exact_size(pool.peak_reserved)),
        (f"{name}: blocks from the upstream", f"{pool.blocks_allocated:,}"),
        (f"{name}: modelled time of the upstream", f"{replay.upstream_us / 1000:,.3f} ms"),
        (f"{name}: coalesces", f"{pool.coalesces:,}"),
    ]
    if replay.failures:
        rows.append((f"{name}: allocations that did not fit", f"{replay.failures:,}"))
    if replay.retried_failures:
        served = replay.retried_failures - replay.repeated_failures
        rows.append((f"{name}: failed requests that succeed now", f"{served:,}"))
    return rows


def duration_text(seconds: float) -> str:
    """A duration with its unit, so that a short one is not 0.000 s."""
    for scale, unit in ((1, "s"), (1e3, "ms"), (1e6, "µs")):
        if round(seconds * scale, 3) >= 1:  # so that 0.9999999 s is not 1,000.000 ms
            return f"{seconds * scale:,.3f} {unit}"
    return f"{seconds * 1e9:,.0f} ns"


def exact_size(size: float) -> str:
    return f"{format_size(int(size))} ({int(size):,} B)"
