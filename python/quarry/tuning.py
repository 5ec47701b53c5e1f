# SPDX-License-Identifier: Apache-2.0
"""Finds the settings of a pool that suit a trace."""

import dataclasses
import os
import shlex
from dataclasses import dataclass, field
from typing import Any

from quarry import _core
from quarry._core import RoutingTable
from quarry.options import words_of_setting
from quarry.sizes import parse_size
from quarry.traces import Progress, Trace, record_bytes, select_allocator


@dataclass(frozen=True)
class TuneOutcome:
    """What a trace needs with one setting.

    The replay of a setting that is dropped or does not fit ended early, after `events` events. The
    figures of such a setting are lower bounds.
    """

    strategy: str
    heuristic: str
    first_block: int
    next_block: int
    growth_percent: int
    shrink_after: int
    fits: bool  # the whole trace was replayed, and every allocation succeeded
    is_dropped: bool  # the replay ended early, because the setting cannot be part of the result
    is_on_front: bool
    events: int  # replayed
    peak_reserved: int
    coalesces: int
    upstream_allocations: int
    upstream_us: float  # modelled
    cost_us: float  # `upstream_us`, and the price of the peak
    code: str  # C++ that makes the pool
    separate: str  # the key of the routes that the trace taught; empty means one pool
    routing: RoutingTable | None = field(repr=False, compare=False)  # these routes

    @property
    def replay_options(self) -> dict[str, Any]:
        """The arguments of `quarry.replay` for this setting."""
        names = ("strategy", "heuristic", "first_block", "next_block", "growth_percent")
        return {name: getattr(self, name) for name in (*names, "shrink_after", "routing")}

    @property
    def command_options(self) -> str:
        """The options of the command `quarry replay` for this setting."""
        words = words_of_setting(self.replay_options)
        return shlex.join(words + (["--separate", self.separate] if self.separate else []))

    def to_dict(self) -> dict[str, Any]:
        """The outcome as plain values, without the routes."""
        names = (item.name for item in dataclasses.fields(self) if item.name != "routing")
        return {name: getattr(self, name) for name in names} | {
            "command_options": self.command_options
        }


@dataclass(frozen=True)
class TuneResult:
    """The outcomes of all settings, in the order of the candidates.

    An outcome is on the front if no other one is as good in peak, coalesces and time of the
    upstream, and better in one of them; of equal ones the first. `best` has the least cost on the
    front; None if no setting fits.
    """

    events: int
    peak_allocated: int  # the least that any setting can reserve
    recorded_failures: int  # requests that failed in the recording
    peak_with_failures: int  # most bytes that would be in use if one had succeeded
    us_per_gib: float
    outcomes: list[TuneOutcome]
    best: TuneOutcome | None = None
    problems: list[str] = field(default_factory=list)  # what the reader skipped
    problem_count: int = 0

    @property
    def front(self) -> list[TuneOutcome]:
        """The outcomes on the front, by peak."""
        chosen = (outcome for outcome in self.outcomes if outcome.is_on_front)
        return sorted(chosen, key=lambda outcome: outcome.peak_reserved)

    @property
    def dropped(self) -> list[TuneOutcome]:
        """The outcomes of settings that fell behind."""
        return [outcome for outcome in self.outcomes if outcome.is_dropped]

    def to_dict(self) -> dict[str, Any]:
        """The result as plain values, for example for `json.dumps`."""
        names = (item.name for item in dataclasses.fields(self))
        return {name: getattr(self, name) for name in names} | {
            "outcomes": [outcome.to_dict() for outcome in self.outcomes],
            "best": self.best and self.best.to_dict(),
        }


def tune(
    trace: Trace | str | os.PathLike[str],
    *,
    candidates: str = "all",
    goal: str = "front",
    allocator: str = "",
    capacity: int | str | None = None,
    us_per_gib: float = _core.default_us_per_gib,
    us_per_allocation: float = _core.default_us_per_allocation,
    us_per_free: float = _core.default_us_per_free,
    threads: int = 0,
    progress: Progress | None = None,
) -> TuneResult:
    """Replays a trace with many settings at once, and says which suit it.

    `candidates` is `all`, or `published`, `2022` or `2024` for the heuristics of Umpire's poster
    with the rules of Quarry, of the poster, or of Umpire's release of 2024-10. `all` also tries
    pools that keep temporary and permanent allocations apart, with routes that the whole trace
    teaches (`quarry.learn_routes`). `us_per_gib` is the price of memory: the microseconds of the
    upstream that a GiB at the peak is worth. The upstream takes `us_per_allocation` microseconds
    for a block, more for a large block, and `us_per_free` microseconds for its return. `capacity`
    limits the reserved bytes of each setting. `threads` 0 means one for each processor.

    `goal` says what to find: the `front`, only the `best` setting, or the outcomes of `all`. With
    the first two, a setting is dropped as soon as it cannot be part of the result. This saves time
    and does not change the result. The trace is read up to four times, and `progress` is called
    with the number of events read in all. `allocator` is that of `quarry.replay`. Raises
    BadArgument, BadTrace if the file is not a trace, and ResourceFailed if it cannot be read.
    """
    settings = _core.TuneSettings(
        candidates=candidates,
        goal=goal,
        capacity=None if capacity is None else parse_size(capacity),
        us_per_allocation=us_per_allocation,
        us_per_free=us_per_free,
        us_per_gib=us_per_gib,
        threads=threads,
    )
    if isinstance(trace, Trace):
        selected = select_allocator(trace, allocator)
        found = _core.tune_events(
            record_bytes(selected.events), selected.call_sites, settings, progress
        )
        found |= {"problems": selected.problems, "problem_count": selected.problem_count}
    else:
        found = _core.tune_file(os.fspath(trace), allocator, settings, progress)
    outcomes = [TuneOutcome(**outcome) for outcome in found.pop("outcomes")]
    number = found.pop("best")
    best = None if number is None else outcomes[number]
    return TuneResult(us_per_gib=us_per_gib, outcomes=outcomes, best=best, **found)
