# SPDX-License-Identifier: Apache-2.0
"""Keeps temporary and permanent allocations in pools of their own."""

import os
from dataclasses import dataclass, field
from typing import Any

from quarry import _core
from quarry._core import Route, RoutingTable
from quarry.replays import ReplayResult, result_of, settings_of
from quarry.traces import Progress, Trace, record_bytes, select_allocator

__all__ = ["Route", "RoutingTable", "SeparateResult", "TriedKey", "learn_routes", "separate"]


@dataclass(frozen=True)
class TriedKey:
    """The routes that one key taught, and the replay of the other part of the trace with them."""

    key: str
    table: RoutingTable
    apart: ReplayResult

    def to_dict(self) -> dict[str, Any]:
        """The result as plain values, without the routes."""
        return {
            "key": self.key,
            "pools": self.table.pools,
            "routes": len(self.table.routes),
            "peak_reserved": self.apart.pool.peak_reserved,
            "failures": self.apart.failures,
        }


@dataclass(frozen=True)
class SeparateResult:
    """Routes that one part of a trace taught, and what they save on the other part.

    `key` is the key in `tried` that saves most. If no key is better than one pool, `key` is empty,
    `table` has no routes, and `apart` is `together`.
    """

    key: str
    table: RoutingTable
    learned_events: int
    together: ReplayResult  # the other part in one pool
    apart: ReplayResult  # the other part in the table's pools
    tried: list[TriedKey]
    problems: list[str] = field(default_factory=list)  # what the reader skipped
    problem_count: int = 0

    @property
    def saved_bytes(self) -> int:
        """By how much the peak of the reserved bytes falls; negative if it rises."""
        return self.together.pool.peak_reserved - self.apart.pool.peak_reserved

    @property
    def is_better(self) -> bool:
        """Whether the table's pools are better than one pool.

        Of two replays, one that fits is better, then one with fewer failures, then one that
        reserves less.
        """
        together, apart = self.together, self.apart
        if apart.fits != together.fits:
            return apart.fits
        if apart.failures != together.failures:
            return apart.failures < together.failures
        return self.saved_bytes > 0

    def to_dict(self) -> dict[str, Any]:
        """The result as plain values, for example for `json.dumps`."""
        return {
            "key": self.key,
            "learned_events": self.learned_events,
            "pools": self.table.pools,
            "routes": [route.to_dict() for route in self.table.routes],
            "together": self.together.to_dict(),
            "apart": self.apart.to_dict(),
            "saved_bytes": self.saved_bytes,
            "tried": [each.to_dict() for each in self.tried],
            "problems": self.problems,
            "problem_count": self.problem_count,
        }


def separate(
    trace: Trace | str | os.PathLike[str],
    *,
    key: str = "best",
    temporary_events: int = 1000,
    learn: float = 0.5,
    allocator: str = "",
    progress: Progress | None = None,
    **options: Any,
) -> SeparateResult:
    """Learns from the first part of a trace which allocations are temporary: those whose free comes
    fewer than `temporary_events` events later. Replays the other part in one pool, and with a pool
    for temporary allocations.

    `key` is what routes tell allocations apart by: `size`, `call_site`, `call_site_and_size`,
    `phase` or `phase_and_size`. Allocations before the first phase then have no route. `best` tries
    all keys, and takes the key with which the other part reserves least, or one pool if no key is
    better. `learn` is the share of the events to learn from. `allocator` and `options` are those of
    `quarry.replay`. The trace is read twice, and only the allocations in use are kept in memory.
    `progress` is called with the number of events read until now, in both passes together. Raises
    BadArgument for an unknown `key` or a `learn` outside its range, and what `quarry.replay`
    raises.
    """
    settings = _core.SeparateSettings(
        keys=[] if key == "best" else [key], temporary_events=temporary_events, learn=learn
    )
    pool, stated = settings_of(**options)
    if isinstance(trace, Trace):
        trace = select_allocator(trace, allocator)
        found = _core.separate_events(
            record_bytes(trace.events), trace.call_sites, settings, pool, progress
        )
        found |= {"problems": trace.problems, "problem_count": trace.problem_count}
    else:
        found = _core.separate_file(os.fspath(trace), allocator, settings, pool, progress)
    together = result_of(found["together"], stated)
    tried = [
        TriedKey(
            each["key"],
            each["table"],
            result_of(each["apart"], stated | {"pools": each["table"].pools}),
        )
        for each in found["keys"]
    ]
    number = found["best"] if key == "best" else 0
    best = tried[number] if number is not None else TriedKey("", RoutingTable(), together)
    return SeparateResult(
        key=best.key,
        table=best.table,
        learned_events=found["learned_events"],
        together=together,
        apart=best.apart,
        tried=tried,
        problems=found["problems"],
        problem_count=found["problem_count"],
    )


def learn_routes(
    trace: Trace | str | os.PathLike[str],
    *,
    key: str,
    temporary_events: int = 1000,
    allocator: str = "",
    progress: Progress | None = None,
) -> RoutingTable:
    """The routes that a whole trace teaches, for `quarry.replay` or a pool.

    `key` is one of those of `separate`, but not `best`, because no part is left to compare keys. An
    allocation is temporary if its free comes fewer than `temporary_events` events later. `progress`
    is called with the number of events read until now. Raises BadArgument for an unknown `key`,
    BadTrace if the file is not a trace, and ResourceFailed if it cannot be read.
    """
    if isinstance(trace, Trace):
        trace = select_allocator(trace, allocator)
        events, sites = record_bytes(trace.events), trace.call_sites
        return _core.learn_events(events, sites, key, temporary_events, progress)
    return _core.learn_file(os.fspath(trace), allocator, key, temporary_events, progress)
