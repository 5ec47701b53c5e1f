# SPDX-License-Identifier: Apache-2.0
"""The content of a report: curves, blocks, groups and the summary. page.py and png.py draw it."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from quarry.replays import ReplayResult
from quarry.report import analysis, texts
from quarry.report.analysis import AddressMap, Axis, Envelope, Floats, Groups, Integers, Lifetimes
from quarry.sizes import format_size
from quarry.traces import Kind, Trace
from quarry.tuning import TuneResult

MAX_BLOCKS = 100_000  # that are drawn one by one
MAX_PHASES = 200  # that are marked


@dataclass(frozen=True)
class ReplayCurves:
    """What a pool of Quarry held during a replay."""

    label: str
    events: Integers  # the number of the last event before each sample
    position: Floats
    reserved: Floats
    free: Floats
    largest_free: Floats
    fragments: bool  # whether the pool counts its largest free chunk and depends on it
    result: ReplayResult


@dataclass(frozen=True)
class Content:
    title: str
    axis: Axis
    requested: Envelope
    granted: Envelope | None  # None if it equals `requested`
    recorded: Envelope | None
    replays: list[ReplayCurves]
    lifetimes: Lifetimes
    addresses: AddressMap
    drawn: np.ndarray  # indices of the allocations that are drawn one by one
    groups: Groups
    call_sites: list[str]
    phases: list[tuple[int, str]]  # the event and the name
    summary: list[tuple[str, str]]
    problems: list[str]
    sweep: TuneResult | None

    @property
    def nothing(self) -> str:
        """Why the charts are empty; empty if they are not."""
        if not len(self.axis.positions):
            return "The trace has no events."
        return "" if len(self.lifetimes) else "The trace has no allocations."

    @property
    def first(self) -> float:
        """The position of the first event."""
        return float(self.axis.positions[0]) if len(self.axis.positions) else 0.0

    @property
    def last(self) -> float:
        """The right end of the charts: the position of the last event, and more than `first`."""
        last = float(self.axis.positions[-1]) if len(self.axis.positions) else 1.0
        return max(last, self.first + 1e-9)

    def on(self, axis: Axis) -> "Content":
        """The same content on another axis."""
        return replace(
            self,
            axis=axis,
            requested=self.requested.on(axis),
            granted=self.granted and self.granted.on(axis),
            recorded=self.recorded and self.recorded.on(axis),
            replays=[replace(each, position=axis.positions[each.events]) for each in self.replays],
        )

    def bounds(self, chosen: np.ndarray) -> tuple[Floats, Floats, Floats, Floats]:
        """Left, right, bottom and height of these allocations in the picture of blocks."""
        positions = np.append(self.axis.positions, self.last)
        return (
            positions[self.lifetimes.start[chosen]],
            positions[self.lifetimes.end[chosen]],
            self.addresses.offset_of(self.lifetimes.address[chosen]).astype(np.float64),
            self.lifetimes.granted[chosen].astype(np.float64),
        )


def make_content(
    trace: Trace,
    replays: Sequence[ReplayResult] = (),
    *,
    sweep: TuneResult | None = None,
    title: str = "",
    by_event: bool = False,
    step: Callable[[str], object] = lambda name: None,
) -> Content:
    """Computes all that a report shows. `step` is called with the name of each step."""
    step("matching allocations and frees")
    axis = analysis.axis_of(trace, by_event=by_event)
    lifetimes = analysis.lifetimes_of(trace)
    step("adding up bytes")
    requested = analysis.live_bytes(lifetimes, lifetimes.size, len(trace))
    granted = analysis.live_bytes(lifetimes, lifetimes.granted, len(trace))
    peak_event = int(requested.argmax()) if len(requested) else 0
    recorded = analysis.recorded_reserved(trace)
    step("drawing blocks")
    addresses = analysis.address_map(lifetimes)
    drawn = analysis.largest_lifetimes(lifetimes, axis, MAX_BLOCKS)
    groups = analysis.groups_of(trace, lifetimes, peak_event)
    curves = [replay_curves(replay, axis) for replay in replays]
    summary = summary_of(trace, lifetimes, axis, requested, granted, recorded)
    for replay in replays:
        summary += summary_of_replay(replay)
    has_rounding = len(granted) > 0 and not np.array_equal(requested, granted)
    return Content(
        title=title or os.path.basename(trace.path) or "trace",
        axis=axis,
        requested=analysis.envelope(axis, requested),
        granted=analysis.envelope(axis, granted) if has_rounding else None,
        recorded=None if recorded is None else analysis.envelope(axis, recorded),
        replays=curves,
        lifetimes=lifetimes,
        addresses=addresses,
        drawn=drawn,
        groups=groups,
        call_sites=trace.call_sites,
        phases=phases_of(trace),
        summary=summary,
        problems=problems_of(trace),
        sweep=sweep,
    )


def replay_curves(replay: ReplayResult, axis: Axis) -> ReplayCurves:
    samples = replay.samples
    last = max(len(axis.positions) - 1, 0)
    events = np.clip(samples["event"].astype(np.int64) - 1, 0, last)
    if not len(axis.positions):
        samples, events = samples[:0], events[:0]
    reserved = samples["reserved"].astype(np.float64)
    free = np.maximum(reserved - samples["granted"], 0.0)
    strategy, label = (replay.settings.get("strategy", "?"), texts.setting_text(replay.settings))
    largest = np.minimum(samples["largest_free"].astype(np.float64), free)
    fragments = strategy not in ("stitched", "direct", "streams", "planned-streams")
    return ReplayCurves(
        label, events, axis.positions[events], reserved, free, largest, fragments, replay
    )


def phases_of(trace: Trace) -> list[tuple[int, str]]:
    events = np.flatnonzero(trace.kind == Kind.PHASE)[:MAX_PHASES]
    return [(int(i), trace.call_site_name(trace.call_site[i])) for i in events]


def problems_of(trace: Trace) -> list[str]:
    problems = list(trace.problems)
    if trace.problem_count > len(problems):
        problems.append(f"{trace.problem_count - len(problems):,} more problems are not listed")
    return problems


def summary_of(
    trace: Trace,
    lifetimes: Lifetimes,
    axis: Axis,
    requested: np.ndarray,
    granted: np.ndarray,
    recorded: np.ndarray | None,
) -> list[tuple[str, str]]:
    rows: list[tuple[str, Any]] = [("events", f"{len(trace):,}"), ("format", trace.format)]
    if not len(trace):
        return rows
    if axis.unit == "s":
        rows.append(("duration", f"{axis.positions[-1]:,.3f} s"))
    rows += [
        ("allocations", f"{len(lifetimes):,}"),
        ("never freed", f"{np.count_nonzero(lifetimes.end == len(trace)):,}"),
        ("failed allocations", f"{np.count_nonzero(trace.kind == Kind.FAIL):,}"),
        ("frees of unknown addresses", f"{lifetimes.unknown_frees:,}"),
        ("most allocations in use", f"{most_in_use(lifetimes, len(trace)):,}"),
        ("peak of the requested bytes", exact_size(requested.max())),
        ("peak of the granted bytes", exact_size(granted.max())),
    ]
    if len(lifetimes):
        rows.append(("largest allocation", exact_size(lifetimes.size.max())))
    if phases := np.count_nonzero(trace.kind == Kind.PHASE):
        marked = f"; the first {MAX_PHASES:,} are marked" if phases > MAX_PHASES else ""
        rows.append(("phases", f"{phases:,}{marked}"))
    if recorded is not None:
        rows.append(("recorded peak of the reserved bytes", exact_size(recorded.max())))
    return rows


def most_in_use(lifetimes: Lifetimes, events: int) -> int:
    return int(analysis.live_bytes(lifetimes, np.ones(len(lifetimes), np.int64), events).max())


def summary_of_replay(replay: ReplayResult) -> list[tuple[str, str]]:
    pool, name = replay.pool, f"Quarry, {texts.setting_text(replay.settings)}"
    rows = [
        (f"{name}: peak of the reserved bytes", exact_size(pool.peak_reserved)),
        (f"{name}: blocks from the upstream", f"{pool.blocks_allocated:,}"),
        (f"{name}: modelled time of the upstream", f"{replay.upstream_us / 1000:,.3f} ms"),
        (f"{name}: coalesces", f"{pool.coalesces:,}"),
    ]
    if not replay.fits:
        rows.append((f"{name}: allocations that did not fit", f"{replay.failures:,}"))
    return rows


def exact_size(size: float) -> str:
    return f"{format_size(int(size))} ({int(size):,} B)"
