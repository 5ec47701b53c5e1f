# SPDX-License-Identifier: Apache-2.0
"""The requests that failed in the recording, and what was in use then."""

from dataclasses import dataclass

import numpy as np

from quarry.report.analysis import Integers, Lifetimes
from quarry.traces import Kind, Trace

MAX_FAILURES = 50  # that a report describes
MAX_GROUPS = 5  # of allocations in use, for each failure


@dataclass(frozen=True)
class Failure:
    """A request that failed. Sizes are bytes."""

    event: int  # its index in the trace
    size: int
    free: int  # of the device or the pool, as recorded; 0 if unknown
    call_site: str
    in_use: int
    allocations: int  # in use
    largest: list[tuple[str, int]]  # call sites with the most bytes in use, or sizes; the most first


def failures_of(trace: Trace, lifetimes: Lifetimes, in_use: Integers) -> list[Failure]:
    """The first `MAX_FAILURES` failures of a trace. `in_use`: the bytes in use after each event."""
    result = []
    for event in np.flatnonzero(trace.kind == Kind.FAIL)[:MAX_FAILURES].tolist():
        live = np.flatnonzero(lifetimes.live_at(event))
        result.append(
            Failure(
                event,
                int(trace.size[event]),
                int(trace.granted[event]),
                trace.call_site_name(trace.call_site[event]),
                int(in_use[event]),
                len(live),
                largest_of(trace, lifetimes.call_site[live], lifetimes.size[live]),
            )
        )
    return result


def largest_of(trace: Trace, call_site: np.ndarray, size: np.ndarray) -> list[tuple[str, int]]:
    """The call sites with the most bytes; without call sites, the largest allocations."""
    if not call_site.any():
        return [("", int(each)) for each in np.sort(size)[::-1][:MAX_GROUPS]]
    sites, group = np.unique(call_site, return_inverse=True)
    totals = np.bincount(group, size.astype(np.float64))
    order = np.argsort(-totals, kind="stable")[:MAX_GROUPS]
    return [(trace.call_site_name(sites[i]) or "(unknown)", int(totals[i])) for i in order]
