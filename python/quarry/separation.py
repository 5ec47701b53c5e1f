# SPDX-License-Identifier: Apache-2.0
"""Keeps temporary and permanent allocations in pools of their own."""

import dataclasses
import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from quarry import _core
from quarry._core import Route, RoutingTable
from quarry.errors import BadArgument
from quarry.replays import ReplayResult, replay
from quarry.report.analysis import lifetimes_of
from quarry.traces import Kind, Progress, Trace, read_trace, record_bytes, select_allocator

__all__ = ["Route", "RoutingTable", "SeparateResult", "separate"]


@dataclass(frozen=True)
class SeparateResult:
    """Routes that one part of a trace taught, and what they save on the other part."""

    table: RoutingTable
    learned_events: int
    together: ReplayResult  # the other part in one pool
    apart: ReplayResult  # the other part in the table's pools
    problems: list[str] = field(default_factory=list)  # what the reader skipped
    problem_count: int = 0

    @property
    def saved_bytes(self) -> int:
        """By how much the peak of the reserved bytes falls; negative if it rises."""
        return self.together.pool.peak_reserved - self.apart.pool.peak_reserved

    def to_dict(self) -> dict[str, Any]:
        """The result as plain values, for example for `json.dumps`."""
        return {
            "learned_events": self.learned_events,
            "pools": self.table.pools,
            "routes": [route.to_dict() for route in self.table.routes],
            "together": self.together.to_dict(),
            "apart": self.apart.to_dict(),
            "saved_bytes": self.saved_bytes,
            "problems": self.problems,
            "problem_count": self.problem_count,
        }


def later_part(trace: Trace, split: int) -> Trace:
    """The events from `split` on, after the phases before it and the allocations in use there."""
    lifetimes = lifetimes_of(trace)
    is_live = (lifetimes.start < split) & (lifetimes.end >= split)
    phases = np.flatnonzero(trace.kind[:split] == Kind.PHASE)
    before = np.sort(np.concatenate([lifetimes.start[is_live], phases]))
    events = np.concatenate([trace.events[before], trace.events[split:]])
    return dataclasses.replace(trace, events=events, problems=[], problem_count=0)


def separate(
    trace: Trace | str | os.PathLike[str],
    *,
    key: str = "size",
    temporary_events: int = 1000,
    learn: float = 0.5,
    allocator: str = "",
    progress: Progress | None = None,
    **options: Any,
) -> SeparateResult:
    """Learns from the first part of a trace which allocations are temporary: those that are freed
    within `temporary_events` events. Replays the other part with and without pools of their own.

    `key` is what routes tell allocations apart by: `size`, `call_site`, `call_site_and_size`,
    `phase` or `phase_and_size`. Allocations before the first phase then have no route.
    `learn` is the share of the events to learn from. `allocator` and `options` are those of
    `quarry.replay`. `progress` is called with the number of events read, then replayed until now.
    Raises BadArgument for an unknown `key` or a `learn` outside its range, and what `quarry.replay`
    raises.
    """
    if not 0 < learn < 1:
        raise BadArgument(f"separate: learn is {learn}, not between 0 and 1")
    read = trace if isinstance(trace, Trace) else read_trace(trace, progress=progress)
    read = select_allocator(read, allocator)
    split = int(len(read) * learn)
    learned = record_bytes(read.events[:split])
    table = _core.separate(learned, read.call_sites, key, temporary_events)
    rest = later_part(read, split)
    options["allocator"] = "all"  # the events are selected
    return SeparateResult(
        table=table,
        learned_events=split,
        together=replay(rest, progress=progress, **options),
        apart=replay(rest, routing=table, progress=progress, **options),
        problems=read.problems,
        problem_count=read.problem_count,
    )
