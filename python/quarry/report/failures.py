# SPDX-License-Identifier: Apache-2.0
"""The requests that failed in the recording, and what was in use then."""

from dataclasses import dataclass

import numpy as np

from quarry.report.lifetimes import Floats, Integers, Lifetimes

MAX_FAILURES = 50  # that a report describes
MAX_GROUPS = 5  # of allocations in use, for each failure


@dataclass(frozen=True)
class FailedRequest:
    """An event of a trace. Sizes are bytes."""

    event: int  # its index in the trace
    time: int
    size: int
    free: int  # of the device or the pool, as recorded; 0 if unknown
    call_site: int


@dataclass(frozen=True)
class Failure:
    """A request that failed. Sizes are bytes."""

    event: int  # its index in the trace
    time: int
    size: int
    free: int  # of the device or the pool, as recorded; 0 if unknown
    call_site: str
    in_use: int
    allocations: int  # in use
    largest: list[
        tuple[str, int]
    ]  # call sites with the most bytes in use, or sizes; the most first


class InUse:
    """Adds up the allocations in use directly after an event."""

    def __init__(self, request: FailedRequest) -> None:
        self._request = request
        self._bytes = self._allocations = 0
        self._by_site: Floats = np.zeros(0)  # bytes
        self._largest: Integers = np.zeros(0, np.int64)  # sizes

    def add(self, lifetimes: Lifetimes) -> None:
        live = lifetimes[lifetimes.live_at(self._request.event)]
        if not len(live):
            return
        self._allocations += len(live)
        self._bytes += int(live.size.sum())
        known = len(self._by_site)
        sums = np.bincount(live.call_site, live.size.astype(np.float64), known).astype(np.float64)
        sums[:known] = sums[:known] + self._by_site
        self._by_site = sums
        self._largest = np.sort(np.concatenate([self._largest, live.size]))[::-1][:MAX_GROUPS]

    def failure(self, call_sites: list[str]) -> Failure:
        def name_of(site: int) -> str:
            return call_sites[site] if site < len(call_sites) else ""

        request = self._request
        if self._by_site[1:].any():
            order = np.argsort(-self._by_site, kind="stable")[:MAX_GROUPS].tolist()
            sums = [(name_of(i) or "(unknown)", int(self._by_site[i])) for i in order]
            largest = [each for each in sums if each[1] > 0]
        else:
            largest = [("", int(size)) for size in self._largest]
        return Failure(
            request.event,
            request.time,
            request.size,
            request.free,
            name_of(request.call_site),
            self._bytes,
            self._allocations,
            largest,
        )
