# SPDX-License-Identifier: Apache-2.0
"""Replay: what a pool of Quarry would have reserved for the allocations of a trace."""

import dataclasses
import os
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from quarry import _core
from quarry.errors import BadArgument
from quarry.options import DEFAULT_PLACEMENT, PLANNED, pool_options
from quarry.sizes import parse_size
from quarry.traces import Progress, Trace, record_bytes, select_allocator

SAMPLE: np.dtype[Any] = np.dtype(cast(Any, _core.sample_layout()))


@dataclass(frozen=True)
class ReplayFailure:
    """The first request that did not fit, and the pool at that moment.

    The request is an allocation of the trace, or a failure of the trace that was tried again.
    """

    event: int  # its index in the trace
    request: dict[str, int]
    reason: str  # the message of the exception
    pool: _core.PoolCounts
    call_site: str = ""


@dataclass(frozen=True)
class PlanUse:
    """How a plan served a trace."""

    planned: int  # allocations at the places that the plan gives them
    occupied: int  # allocations whose places were in use, not aligned, or not in the plan
    unplanned: int  # allocations whose requests were not the next ones of the plan
    jumps: int  # jumps to another position of the plan, after a deviation
    fallback_peak: int  # peak of the bytes that the pool for the other requests reserved

    @property
    def allocations(self) -> int:
        """All allocations of the trace."""
        return self.planned + self.occupied + self.unplanned


@dataclass(frozen=True)
class ReplayResult:
    """The result of a replay. `samples` has the state after some events, as NumPy records.

    In a sample, `allocated` and `reserved` are the maxima since the preceding sample, so no peak is
    lost. Other values are those at the time of the sample.
    """

    events: int
    pool: _core.PoolCounts
    upstream_us: float  # modelled time of the upstream's calls
    measured_us: float | None  # time of the upstream's calls on real memory; None if simulated
    failures: int  # allocations that did not fit
    first_failure: ReplayFailure | None
    unknown_frees: int  # frees of addresses that the trace did not allocate
    repeated_addresses: int  # allocations at addresses in use
    recorded_failures: int  # requests that failed in the recording
    retried_failures: int  # recorded failures tried again: all, or 0 if the memory is unlimited
    repeated_failures: int  # recorded failures that failed again
    peak_with_failures: int  # the largest sum of a failed request and the bytes in use then
    recorded_peak_reserved: int  # bytes that the recorded allocator reserved; 0 if not recorded
    max_live: int  # peak number of allocations in use
    plan: PlanUse | None  # None without a plan, and if the memory has no room for its block
    samples: np.ndarray = dataclasses.field(repr=False)
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    format: str = ""
    problems: list[str] = dataclasses.field(default_factory=list)
    problem_count: int = 0

    @property
    def fits(self) -> bool:
        """Whether every allocation succeeded, and every recorded failure that was tried again."""
        return self.failures == 0 and self.repeated_failures == 0

    def to_dict(self, *, samples: bool = False) -> dict[str, Any]:
        """The result as plain values, for example for `json.dumps`.

        With `samples` it includes the samples.
        """
        result = {
            item.name: getattr(self, item.name)
            for item in dataclasses.fields(self)
            if item.name != "samples"
        }
        result["fits"] = self.fits
        result["pool"] = self.pool.to_dict()
        if self.plan:
            result["plan"] = vars(self.plan)
        if self.first_failure:
            result["first_failure"] = vars(self.first_failure) | {
                "pool": self.first_failure.pool.to_dict()
            }
        if samples:
            result["samples"] = {name: self.samples[name].tolist() for name in SAMPLE.names or ()}
        return result


def replay(
    trace: Trace | str | os.PathLike[str],
    *,
    strategy: str = DEFAULT_PLACEMENT,
    heuristic: str = "never",
    capacity: int | str | None = None,
    first_block: int | str = 0,
    next_block: int | str = 0,
    growth_percent: int = 4,
    alignment: int | str = 16,
    shrink_after: int = 0,
    us_per_allocation: float = _core.default_us_per_allocation,
    us_per_gib: float = _core.default_us_per_gib_of_blocks,
    us_per_free: float = _core.default_us_per_free,
    stream_delay: int = 1_000_000,
    resource: str | None = None,
    device: int = 0,
    routing: _core.RoutingTable | str | os.PathLike[str] | None = None,
    plan: _core.Plan | str | os.PathLike[str] | None = None,
    allocator: str = "",
    max_samples: int = 2048,
    sampled: tuple[int, int | None] | None = None,
    progress: Progress | None = None,
) -> ReplayResult:
    """Makes the allocations of a trace again in a pool, without their memory.

    `strategy` is a placement (`quarry.PLACEMENTS`), or another row of `quarry.STRATEGIES`.
    `planned` and `planned_streams` need a `plan` (`quarry.make_plan`) or the path of one; `planned`
    ignores the trace's streams. If the plan's block has no room, nothing fits. `heuristic` is that
    of `Pool`; `+2022` and `+2024` use Umpire's rules, which a plan or a routing table excludes.
    `capacity` limits the reserved bytes. With a capacity, and on real memory, requests that failed
    in the recording are tried again. The pool requests blocks of at least `first_block`, later of
    at least `next_block` bytes; 0 means its default. Addresses are multiples of `alignment`. Sizes
    may be texts such as `512MiB`. The times are those of a modelled upstream: `us_per_allocation`
    microseconds for a block and `us_per_gib` for each GiB of it, and `us_per_free` for its return;
    their defaults are those of cudaMalloc and cudaFree on an H200. A path is streamed: its memory
    does not grow with the number of events. `progress` is called with the number of events until
    now.

    `resource` (`host`, `device`, `pinned` or `managed`) replays on real memory instead of simulated
    memory, and measures the time of the upstream's calls; `device` is the number of the GPU. The
    strategy `stitched` takes `host` and `device` only. `stream_delay` is how long the work of a
    stream takes in the trace's time, in nanoseconds, for strategies with streams. `routing`, a
    table or the name of its file, serves the allocations from several pools (`quarry.separate`);
    placements take it, on simulated memory. The result has at most `max_samples` samples: of all
    events, or with `sampled` (first, end) of those from event `first` to before event `end`, or to
    the last one if `end` is None.

    `allocator` is the name of the allocator whose events are replayed, for example `device 1`.
    Without it, all events are replayed, and a trace of several devices raises BadArgument; `all`
    replays also such a trace in one pool.

    Raises BadArgument for a bad option, BadTrace or BadPlan if a file is damaged, and
    ResourceFailed if a file or the resource fails.
    """
    settings, stated = settings_of(
        strategy=strategy,
        heuristic=heuristic,
        capacity=capacity,
        first_block=first_block,
        next_block=next_block,
        growth_percent=growth_percent,
        alignment=alignment,
        shrink_after=shrink_after,
        us_per_allocation=us_per_allocation,
        us_per_gib=us_per_gib,
        us_per_free=us_per_free,
        stream_delay=stream_delay,
        resource=resource,
        device=device,
        routing=routing,
        plan=plan,
        max_samples=max_samples,
        sampled=sampled,
    )
    if isinstance(trace, Trace):
        trace = select_allocator(trace, allocator)
        found = _core.replay_events(
            record_bytes(trace.events), trace.call_sites, settings, progress
        )
        found |= {
            "format": trace.format,
            "problems": trace.problems,
            "problem_count": trace.problem_count,
        }
    else:
        found = _core.replay_file(os.fspath(trace), allocator, settings, progress)
    return result_of(found, stated)


def settings_of(
    *,
    strategy: str = DEFAULT_PLACEMENT,
    heuristic: str = "never",
    capacity: int | str | None = None,
    first_block: int | str = 0,
    next_block: int | str = 0,
    growth_percent: int = 4,
    alignment: int | str = 16,
    shrink_after: int = 0,
    us_per_allocation: float = _core.default_us_per_allocation,
    us_per_gib: float = _core.default_us_per_gib_of_blocks,
    us_per_free: float = _core.default_us_per_free,
    stream_delay: int = 1_000_000,
    resource: str | None = None,
    device: int = 0,
    routing: _core.RoutingTable | str | os.PathLike[str] | None = None,
    plan: _core.Plan | str | os.PathLike[str] | None = None,
    max_samples: int = 2048,
    sampled: tuple[int, int | None] | None = None,
) -> tuple[_core.ReplaySettings, dict[str, Any]]:
    """The options of `replay` for the compiled module, and as plain values for a result."""
    pool: dict[str, Any] = {
        "first_block": parse_size(first_block),
        "next_block": parse_size(next_block),
        "growth_percent": growth_percent,
        "alignment": parse_size(alignment),
        "shrink_after": shrink_after,
    }
    max_bytes = None if capacity is None else parse_size(capacity)
    options: dict[str, Any] = {
        "us_per_allocation": us_per_allocation,
        "us_per_gib": us_per_gib,
        "us_per_free": us_per_free,
        "stream_delay": stream_delay,
        "resource": resource,
        "device": device,
    }
    strategy = _core.strategy_named(strategy)
    if plan is not None and strategy not in PLANNED:
        raise BadArgument(
            f"replay: the strategy {strategy} takes no plan; choose {' or '.join(PLANNED)}"
        )
    if plan is None and strategy in PLANNED:
        raise BadArgument(
            f"replay: the strategy {strategy} needs a plan, which `quarry plan` makes"
        )
    if plan is not None and not isinstance(plan, _core.Plan):
        plan = _core.load_plan(plan)
    if routing is not None and not isinstance(routing, _core.RoutingTable):
        routing = _core.RoutingTable.load(os.fspath(routing))
    settings = _core.ReplaySettings(
        strategy=strategy,
        heuristic=heuristic,
        pool=pool_options(max_bytes=max_bytes, **pool),
        max_samples=max_samples,
        sample_begin=sampled[0] if sampled else 0,
        sample_end=sampled[1] if sampled else None,
        routing=routing,
        plan=plan,
        **options,
    )
    pools = {"pools": 1 if routing is None else routing.pools}
    stated: dict[str, Any] = {
        "strategy": strategy,
        "heuristic": heuristic,
        "capacity": max_bytes,
    }
    if sampled:
        stated["sampled"] = sampled
    return settings, {**stated, **pool, **options, **pools}


def result_of(found: dict[str, Any], stated: dict[str, Any]) -> ReplayResult:
    """The result of a replay by the compiled module."""
    call_site = found.pop("failed_call_site", "")
    if found["first_failure"]:
        found["first_failure"] = ReplayFailure(**found["first_failure"], call_site=call_site)
    if found["plan"]:
        found["plan"] = PlanUse(**found["plan"])
    found["samples"] = found["samples"].view(SAMPLE)
    return ReplayResult(settings=stated, **found)
