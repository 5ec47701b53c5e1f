# SPDX-License-Identifier: Apache-2.0
"""Finds the settings of a pool that suit a trace."""

import dataclasses
import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from quarry import _core
from quarry.errors import BadArgument
from quarry.sizes import parse_size
from quarry.traces import Progress, Trace, record_bytes


@dataclass(frozen=True)
class TuneOutcome:
    """What a trace needs with one setting."""

    strategy: str
    heuristic: str
    first_block: int
    next_block: int
    growth_percent: int
    shrink_after: int
    fits: bool
    peak_reserved: int
    coalesces: int
    upstream_allocations: int
    upstream_us: float  # modelled
    cost_us: float  # `upstream_us`, and the price of the peak
    code: str  # C++ that makes the pool
    is_on_front: bool = False

    @property
    def replay_options(self) -> dict[str, Any]:
        """The arguments of `quarry.replay` for this setting."""
        names = ("strategy", "heuristic", "first_block", "next_block", "growth_percent")
        return {name: getattr(self, name) for name in (*names, "shrink_after")}


@dataclass(frozen=True)
class TuneResult:
    """The outcomes of all settings, in the order of the candidates.

    `best` has the least cost among those that fit; None if none fits. An outcome is on the front if
    no other one is as good in peak, coalesces and time of the upstream, and better in one of them.
    """

    events: int
    peak_allocated: int  # the least that any setting can reserve
    us_per_gib: float
    outcomes: list[TuneOutcome]
    problems: list[str] = dataclasses.field(default_factory=list)  # what the reader skipped
    problem_count: int = 0

    @property
    def best(self) -> TuneOutcome | None:
        """The outcome that fits and has the least cost; None if none fits."""
        fitting = [outcome for outcome in self.outcomes if outcome.fits]
        return min(fitting, key=lambda outcome: outcome.cost_us, default=None)

    @property
    def front(self) -> list[TuneOutcome]:
        """The outcomes on the front, by peak; of equal ones the first."""
        found = {
            (o.peak_reserved, o.coalesces, o.upstream_us): o
            for o in self.outcomes[::-1]
            if o.is_on_front
        }
        return [found[key] for key in sorted(found)]

    def to_dict(self) -> dict[str, Any]:
        """The result as plain values, for example for `json.dumps`."""
        return dataclasses.asdict(self) | {
            "best": dataclasses.asdict(self.best) if self.best else None
        }


def tune(
    trace: Trace | str | os.PathLike[str],
    *,
    candidates: str = "all",
    capacity: int | str | None = None,
    us_per_gib: float = _core.default_us_per_gib,
    us_per_allocation: float = 100,
    us_per_free: float = 100,
    threads: int = 0,
    progress: Progress | None = None,
) -> TuneResult:
    """Replays a trace with many settings at once, and says which suit it.

    `candidates` is `all`, or `published`, `2022` or `2024` for the heuristics of Umpire's poster
    with the rules of Quarry, of the poster, or of Umpire's release of 2024-10. `all` reads the
    trace twice: the second time with pools whose first block is as large as the peak. `us_per_gib`
    is the price of memory: how much time of the upstream a GiB at the peak is worth. `threads` 0
    means one for each processor. `capacity` limits the reserved bytes of each setting. The upstream
    takes `us_per_allocation` microseconds for a block, and `us_per_free` for its return. `progress`
    is called with the number of events read until now. Raises BadArgument, BadTrace if the file is
    no trace, and ResourceFailed if it cannot be read.
    """
    if candidates == "sized":
        raise BadArgument("tune: the candidates 'sized' belong to 'all'")

    def run(name: str, peak: int) -> dict[str, Any]:
        settings = _core.TuneSettings(
            candidates=name,
            peak=peak,
            capacity=None if capacity is None else parse_size(capacity),
            us_per_allocation=us_per_allocation,
            us_per_free=us_per_free,
            us_per_gib=us_per_gib,
            threads=threads,
        )
        if isinstance(trace, Trace):
            found = _core.tune_events(record_bytes(trace.events), settings, progress)
            return found | {"problems": trace.problems, "problem_count": trace.problem_count}
        return _core.tune_file(os.fspath(trace), settings, progress)

    found = run(candidates, 0)
    peak = found["peak_allocated"]
    outcomes = found["outcomes"]
    if candidates == "all" and peak:
        outcomes += run("sized", peak)["outcomes"]
    front = front_of(outcomes)
    return TuneResult(
        events=found["events"],
        peak_allocated=peak,
        us_per_gib=us_per_gib,
        outcomes=[TuneOutcome(**o, is_on_front=i in front) for i, o in enumerate(outcomes)],
        problems=found["problems"],
        problem_count=found["problem_count"],
    )


def front_of(outcomes: list[dict[str, Any]]) -> set[int]:
    """The indices of the outcomes that fit and that no other one beats."""
    fitting = [i for i, outcome in enumerate(outcomes) if outcome["fits"]]
    names = ("peak_reserved", "coalesces", "upstream_us")
    figures = np.array([[outcomes[i][name] for name in names] for i in fitting], np.float64)
    result = set()
    for i, own in zip(fitting, figures, strict=True):
        is_beaten = (figures <= own).all(1) & (figures < own).any(1)
        if not is_beaten.any():
            result.add(i)
    return result
