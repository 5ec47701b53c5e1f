# SPDX-License-Identifier: Apache-2.0
"""README's table of Quarry and its peers.

Quarry's figures come from bench/results. Programs outside this repository measured the peers, with
each peer's best settings, on another machine of the same kind. These figures are constants with a
date.
"""

from dataclasses import dataclass, field

from bench_records import origin, points, value_text
from figures import HOST_CASES, lookup_case
import kma
import opencl_figures
import pool_figures
from markdown import missing, table

GPU, CPU = "nvidia-h200", "x86-64-2-core-vm"
PEERS = ["Gallatin", "mallocMC", "RMM pool", "Umpire", "CUDA", "KMA"]
MEASURED = "2026-11-21 and 2026-11-22"


@dataclass
class Comparison:
    title: str
    unit: str
    bench: str
    selection: dict
    peers: dict = field(default_factory=dict)
    machine: str = GPU


COMPARISONS = [
    Comparison(
        "`malloc` of 64 B by 2^20 threads, heap after a reset",
        "million a second",
        "heap/single/malloc",
        {"bytes": 64},
        {"Gallatin": 4792, "mallocMC": 1956, "CUDA": 3.1},
    ),
    Comparison(
        "alternating `malloc` and `free` of 16 to 256 B by 65,536 threads",
        "million a second",
        "heap/churn",
        {"bytes": 256},
        {"Gallatin": 2363, "mallocMC": 1974, "CUDA": 4.2},
    ),
    Comparison(
        "insert a batch of edges into a dynamic graph of 2^20 vertices",
        "ms",
        "heap/graph/insert",
        {},
        {"Gallatin": 0.160, "mallocMC": 0.200, "CUDA": 314},
    ),
    Comparison(
        "100 pairs of `malloc` and `free` of 8 B by each of 4,608 OpenCL work-items",
        "ms",
        "opencl/pairs",
        {"variance": "none", "items": 4608},
        {"KMA": kma.PAIRS["gpu"]["kma-none"][4608]},
    ),
    Comparison(
        "replace one of 10,000 host allocations of 1 B to 1 MiB of device memory",
        "ns",
        "host/pool/pair",
        HOST_CASES[2].selection(),
        {"RMM pool": 43_027, "CUDA": 2391},
    ),
    Comparison(
        "find the allocation that a pointer belongs to, among 10^6",
        "ns",
        "host/registry/find",
        lookup_case(1_000_000),
        {"Umpire": 1202},
        CPU,
    ),
]


def quarry_point(records, row):
    if row.bench.startswith("host/pool/"):
        found = pool_figures.runs(records, row.machine, row.bench, row.selection).get("quarry")
        return found.median_point() if found else None
    if row.bench.startswith("opencl/"):
        records = opencl_figures.records_of(records, "gpu")
    found = points(records, row.machine, row.bench, selection=row.selection).get("quarry", {})
    return next(iter(found.values()), None)


def comparison_table(records):
    rows, quarry_points = [], []
    for row in COMPARISONS:
        point = quarry_point(records, row)
        if point is None:
            return missing("`make bench`")
        quarry_points.append(point)
        peer_texts = [value_text(row.peers[name]) if name in row.peers else "–" for name in PEERS]
        rows.append([row.title, row.unit, f"**{value_text(point.median)}**", *peer_texts])
    return [
        *table(["", "unit", "**Quarry**", *PEERS], rows),
        "",
        f"Medians. Quarry: {origin(quarry_points)}. "
        f"Peers: {MEASURED}, by programs outside this repository.",
        "The last row was measured on a virtual machine with two cores, "
        "the others on an NVIDIA H200 and",
        f"its host. KMA: {kma.MEASURED}; it corrupted {kma.CORRUPT_WORDS['kma-none']} words of live"
        " allocations in three runs.",
    ]
