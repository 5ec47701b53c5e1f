# SPDX-License-Identifier: Apache-2.0
"""Figures 1 and 2 of the coalescing paper, from coalesced_unit_bench, in both modes and grids."""

from dataclasses import dataclass, replace

from bench_records import UPSTREAMS, points
from figures import HIGHER, Figure, Panel

# Additions and multiplications that a thread does with n floats, as the paper counts them.
OPERATIONS = {"linear": lambda n: n, "quadratic": lambda n: 2 * n * n}
GRIDS = {"paper": "12 × 1024 threads", "full": "1024 threads on each multiprocessor"}
MODES = {"none": "no barrier", "barrier": "barrier"}
OVER = {"quarry": "over Quarry", "cuda": "over CUDA's malloc", "libc": "over the C library"}


# At most six series a panel: what blocks share beside what is not coalesced, and what warps share.
WAYS = {
    "blocks": ("quarry", "cuda", "libc", "bump", "header-block", "map-block"),
    "warps": ("quarry", "header-warp", "map-warp", "dynamic", "reserved", "packed"),
}


def is_over(allocator, upstream):
    """Whether it is shown beside the ways over `upstream`: these, and all that is not coalesced."""
    return "+" not in allocator or allocator.startswith(upstream + "+")


def rate(point, workload):
    """Gflop/s of all threads together, from the mean cycles that a thread worked."""
    params = point.params
    done = params["threads"] * OPERATIONS[workload](params["floats"])
    values = {
        name: done * params["mhz"] / value / 1e3
        for name, value in point.values.items()
        if name in ("median", "p10", "p90") and value > 0
    }
    if "p10" in values and "p90" in values:  # the slow ones are the low ones
        values["p10"], values["p90"] = values["p90"], values["p10"]
    return replace(point, values=values, unit="Gflop/s")


@dataclass
class Performance(Panel):
    """How fast threads work on their arrays, by floats. `upstream`: over which heap; `ways`: which ones."""

    upstream: str = ""
    ways: tuple = ()

    def points(self, records, machine):
        found = points(records, machine, self.bench, self.x, self.where)
        found = {name: of for name, of in found.items() if is_over(name, self.upstream)}
        found = {n: of for n, of in found.items() if n.rpartition("+")[2] in self.ways}
        if not any("+" in name for name in found):
            return {}
        workload = self.where["workload"]
        return {
            name: {x: rate(point, workload) if point.values else point for x, point in of.items()}
            for name, of in found.items()
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
