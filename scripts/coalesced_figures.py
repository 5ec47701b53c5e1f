# SPDX-License-Identifier: Apache-2.0
"""Figures 1 and 2 of the coalescing paper, from coalesced_unit_bench, in both modes and grids."""

from dataclasses import dataclass, replace

from bench_records import UPSTREAMS, points
from figures import HIGHER, Figure, Panel

# The additions and multiplications of a thread with n floats, as the paper counts them.
OPERATIONS = {"linear": lambda n: n, "quadratic": lambda n: 2 * n * n}
GRIDS = {"paper": "12 × 1024 threads", "full": "1024 threads on each multiprocessor"}
MODES = {"none": "no barrier", "barrier": "barrier"}
OVER = {"quarry": "over Quarry", "cuda": "over CUDA's malloc", "libc": "over the C library"}


# The ways in each panel, at most six: allocators without coalescing and ways of thread blocks, then
# the ways of warps.
WAYS = {
    "blocks": ("quarry", "cuda", "libc", "bump", "header-block", "map-block"),
    "warps": ("quarry", "header-warp", "map-warp", "dynamic", "reserved", "packed"),
}


def is_over(allocator, upstream):
    """Whether the panel of `upstream` shows an allocator: a way over it, or one that is no way."""
    return "+" not in allocator or allocator.startswith(upstream + "+")


def rate(point, workload):
    """Gflop/s of all threads together, computed from a thread's mean cycles of work."""
    params = point.params
    done = params["threads"] * OPERATIONS[workload](params["floats"])
    values = {
        name: done * params["mhz"] / value / 1e3
        for name, value in point.values.items()
        if name in ("median", "p10", "p90") and value > 0
    }
    if "p10" in values and "p90" in values:  # the slowest time is the lowest rate
        values["p10"], values["p90"] = values["p90"], values["p10"]
    return replace(point, values=values, unit="Gflop/s")


@dataclass
class Performance(Panel):
    """The rate of work on arrays, by floats, for the ways `ways` over the heap `upstream`."""

    upstream: str = ""
    ways: tuple = ()

    def points(self, records, machine):
        found = points(records, machine, self.bench, self.x, self.selection)
        found = {name: series for name, series in found.items() if is_over(name, self.upstream)}
        found = {n: series for n, series in found.items() if n.rpartition("+")[2] in self.ways}
        if not any("+" in name for name in found):
            return {}
        workload = self.selection["workload"]
        return {
            name: {
                x: rate(point, workload) if point.values else point for x, point in series.items()
            }
            for name, series in found.items()
        }


def figure(workload, grid):
    return Figure(
        f"coalesced-{workload}-{grid}",
        f"{workload.capitalize()} work on arrays of n floats for each thread, {GRIDS[grid]}",
        [
            Performance(
                f"{OVER[upstream]}, {MODES[mode]}: {ways}",
                HIGHER,
                "coalesced/unit/work",
                "floats",
                {"workload": workload, "mode": mode, "grid": grid},
                lines=True,
                upstream=upstream,
                ways=WAYS[ways],
            )
            for upstream in UPSTREAMS
            for ways in WAYS
            for mode in MODES
        ],
    )


COALESCED_FIGURES = [figure(workload, grid) for workload in OPERATIONS for grid in GRIDS]
