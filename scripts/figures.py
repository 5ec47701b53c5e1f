# SPDX-License-Identifier: Apache-2.0
"""The list of figures: `plot_bench.py` draws them and `readme_table.py` writes their tables."""

from dataclasses import dataclass

from bench_records import ALLOCATORS, points

HIGHER, LOWER = "higher is better", "lower is better"


@dataclass
class Panel:
    """One pair of axes: a benchmark by one of its params, or several benchmarks side by side."""

    title: str
    better: str
    bench: str | None = None
    x: str | None = None
    selection: dict | None = None
    side_by_side: dict | None = None  # label -> bench
    lines: bool = False  # always lines, since x is no power of two
    is_logarithmic: bool = False  # the y axis, even if values differ little
    x_label: str | None = None  # `x` if None

    def points(self, records, machine):
        """{allocator: {x or the label of the benchmark: Point}}"""
        if self.bench:
            return points(records, machine, self.bench, self.x, self.selection)
        found = {}
        for label, bench in self.side_by_side.items():
            for allocator, series in points(records, machine, bench).items():
                found.setdefault(allocator, {})[label] = next(iter(series.values()))
        return found


@dataclass
class Figure:
    name: str
    title: str
    panels: list
    columns: int = 2
    note: str = ""  # about series that are not from bench/results
    legend_in_panels: bool = False  # beside the lines of each panel, since panels have other series


FIGURES = [
    Figure(
        "one-size",
        "Each thread allocates once, then frees: one size, heap reset before each round",
        [
            Panel("malloc", HIGHER, "heap/single/malloc", "bytes"),
            Panel("free", HIGHER, "heap/single/free", "bytes"),
        ],
    ),
    Figure(
        "mixed-sizes",
        "Each thread allocates once, then frees: a random size from 16 B up to …",
        [
            Panel("malloc", HIGHER, "heap/mixed/malloc", "bytes"),
            Panel("free", HIGHER, "heap/mixed/free", "bytes"),
        ],
    ),
    Figure(
        "used-heap",
        "Each thread allocates once, then frees: one size, heap never reset",
        [
            Panel("malloc", HIGHER, "heap/warm/malloc", "bytes"),
            Panel("free", HIGHER, "heap/warm/free", "bytes"),
        ],
    ),
    Figure(
        "states",
        "Each thread allocates once, one size, from a heap in one of three states",
        [
            Panel("new heap", HIGHER, "heap/state/fresh", "bytes"),
            Panel("after another size", HIGHER, "heap/state/used", "bytes"),
            Panel("after a reset", HIGHER, "heap/state/reset", "bytes"),
        ],
        columns=3,
    ),
    Figure(
        "scaling",
        "Time until all threads have allocated, or freed, once",
        [
            Panel("malloc of 64 B", LOWER, "heap/scaling/malloc", "threads", {"bytes": 64}),
            Panel("malloc of 512 B", LOWER, "heap/scaling/malloc", "threads", {"bytes": 512}),
            Panel("free of 64 B", LOWER, "heap/scaling/free", "threads", {"bytes": 64}),
            Panel("free of 512 B", LOWER, "heap/scaling/free", "threads", {"bytes": 512}),
        ],
    ),
    Figure(
        "churn",
        "Churn: each thread repeatedly frees an allocation and makes another, 16 B up to …",
        [
            Panel("malloc and free", HIGHER, "heap/churn", "bytes"),
            Panel("failed", LOWER, "heap/churn/failures", "bytes"),
        ],
    ),
    Figure(
        "fragmentation",
        "Distance from the lowest address in use to the highest, divided by the requested bytes",
        [
            Panel("one size", LOWER, "heap/fragmentation/span", "bytes"),
            Panel("16 B up to …", LOWER, "heap/fragmentation/mixed_span", "bytes"),
        ],
    ),
    Figure(
        "fill",
        "Threads allocate until each malloc fails, free a random half, and fill the heap again",
        [
            Panel("requested share of a full heap", HIGHER, "heap/utilisation/share", "bytes"),
            Panel("time to fill", LOWER, "heap/utilisation/fill", "bytes"),
            Panel("share of that half allocated again", HIGHER, "heap/reuse/share", "bytes"),
            Panel("time to fill again", LOWER, "heap/reuse/fill", "bytes"),
        ],
    ),
    Figure(
        "large",
        "Large allocations: time until each thread has one",
        [
            Panel("malloc", LOWER, "heap/large/malloc", "bytes"),
            Panel("free", LOWER, "heap/large/free", "bytes"),
            Panel("threads served", HIGHER, "heap/large/successes", "bytes"),
        ],
        columns=3,
    ),
    Figure(
        "graph-and-work",
        "Real work: a graph whose arrays grow and shrink; arrays that are filled and summed",
        [
            Panel(
                "graph",
                LOWER,
                side_by_side={
                    step: f"heap/graph/{step}" for step in ("init", "insert", "delete", "expand")
                },
            ),
            Panel(
                "128 bytes a thread, summed",
                LOWER,
                side_by_side={
                    "malloc": "heap/in_use/malloc",
                    "use": "heap/in_use/use",
                    "free": "heap/in_use/free",
                    "all three": "heap/in_use/total",
                    "one kernel": "heap/in_use/one_kernel",
                },
            ),
        ],
    ),
    Figure(
        "set-up",
        "Cost of a heap before its first allocation",
        [
            Panel(
                "host time",
                LOWER,
                side_by_side={"make": "heap/init/construct", "reset": "heap/init/reset"},
            ),
            Panel(
                "registers of a kernel",
                LOWER,
                side_by_side={"malloc": "heap/registers/malloc", "free": "heap/registers/free"},
            ),
        ],
    ),
]


# The allocators in the tables of host pools, in their order.
HOST_NAMES = {
    "quarry": "Quarry",
    "cudaMallocAsync": "cudaMallocAsync",
    "torch-2.11.0+cu130": "PyTorch 2.11, from C++",
    "cudaMalloc": "cudaMalloc",
    "libc": "C library's malloc",
    "libc-keeps": "malloc that keeps freed memory",
    "mimalloc": "mimalloc",
    "pmr-unsynchronized": "std::pmr pool",
    "pmr-up-to-1-MiB": "std::pmr pool up to 1 MiB",
}
# The allocators in docs/design/pools.md.
POOL_NAMES = {
    "quarry": "**pool, fast_fit**",
    "quarry-untracked": "the same, not tracked",
    "quarry-segregated-fit": "pool, segregated_fit",
    "quarry-best-fit": "pool, oldest best fit",
    "quarry-lowest-best-fit": "pool, lowest best fit",
    "quarry-stitched": "stitched pool, lowest best fit",
    "quarry-stitched-fast-fit": "stitched pool, fast_fit",
    "quarry-stream": "stream pool, a stream without work",
    "quarry-cuda-mr": "the same with a lock, as `cuda::mr` resource",
    "quarry-arenas": "**a pool for each thread** (`thread_arenas`)",
    "quarry-synchronized": "one pool with a lock (`synchronized_resource`)",
} | {name: text for name, text in HOST_NAMES.items() if name != "quarry"}
# The strategies of host_strategies_bench.
STRATEGIES = {
    "fast_fit": "**pool, fast_fit** (the default)",
    "segregated_fit": "pool, segregated_fit",
    "oldest_best_fit": "pool, oldest best fit",
    "lowest_best_fit": "pool, lowest best fit",
    "stitched-64-KiB": "stitched pool, lowest best fit, pages of 64 KiB",
    "stitched-2-MiB": "the same, pages of 2 MiB",
    "stitched-fast_fit-64-KiB": "stitched pool, fast_fit, pages of 64 KiB",
    "stitched-fast_fit-2-MiB": "the same, pages of 2 MiB",
}
ROW_NAMES = [name for name in ALLOCATORS | HOST_NAMES if name != "quarry-hardened"]


@dataclass
class Row:
    """One line of a table in docs/plots: one case of a benchmark."""

    title: str
    bench: str
    selection: dict | None = None
    quarry: str = "quarry"  # the allocator shown as Quarry

    def points(self, records, machine):
        """{allocator: Point}"""
        found = points(records, machine, self.bench, selection=self.selection)
        quarry_series = found.pop(self.quarry, None)
        if self.quarry != "quarry":
            found = {}
        if quarry_series:
            found["quarry"] = quarry_series
        return {
            name: next(iter(series.values())) for name, series in found.items() if name in ROW_NAMES
        }


def unit_case(workload, floats):
    """A case of coalesced_unit_bench with barriers between the phases."""
    return {"workload": workload, "floats": floats, "mode": "barrier", "grid": "paper"}


KIB, MIB, ALL = 1 << 10, 1 << 20, 1 << 20

ROWS = [
    Row("malloc, 64 B", "heap/single/malloc", {"bytes": 64}),
    Row("malloc, 1024 B", "heap/single/malloc", {"bytes": 1024}),
    Row("malloc, 4096 B", "heap/single/malloc", {"bytes": 4096}),
    Row("free, 64 B", "heap/single/free", {"bytes": 64}),
    Row("malloc, 16 to 256 B", "heap/mixed/malloc", {"bytes": 256}),
    Row("malloc, 64 B, heap never reset", "heap/warm/malloc", {"bytes": 64}),
    Row("malloc, 4096 B, heap never reset", "heap/warm/malloc", {"bytes": 4096}),
    Row("malloc, 64 B, new heap", "heap/state/fresh", {"bytes": 64}),
    Row("malloc, 64 B, after another size", "heap/state/used", {"bytes": 64}),
    Row("malloc, 64 B, after a reset", "heap/state/reset", {"bytes": 64}),
    Row("malloc, 4096 B, new heap", "heap/state/fresh", {"bytes": 4 * KIB}),
    Row("malloc, 4096 B, after another size", "heap/state/used", {"bytes": 4 * KIB}),
    Row("malloc, 4096 B, after a reset", "heap/state/reset", {"bytes": 4 * KIB}),
    Row("malloc, 64 B, one thread", "heap/scaling/malloc", {"bytes": 64, "threads": 1}),
    Row("malloc, 64 B, 2^20 threads", "heap/scaling/malloc", {"bytes": 64, "threads": ALL}),
    Row("256 threads malloc 1 MiB", "heap/large/malloc", {"bytes": MIB}),
    Row("churn, 16 to 256 B", "heap/churn", {"bytes": 256}),
    Row("churn, 16 to 4096 B", "heap/churn", {"bytes": 4 * KIB}),
    Row("churn, 16 to 256 B: one malloc, median", "heap/churn/malloc/p50", {"bytes": 256}),
    Row("the same, 99 of 100", "heap/churn/malloc/p99", {"bytes": 256}),
    Row("the same, the slowest", "heap/churn/malloc/worst", {"bytes": 256}),
    Row("churn, 16 to 256 B: one free, median", "heap/churn/free/p50", {"bytes": 256}),
    Row("the same, 99 of 100", "heap/churn/free/p99", {"bytes": 256}),
    Row("the same, the slowest", "heap/churn/free/worst", {"bytes": 256}),
    Row("addresses used ÷ requested bytes, 64 B", "heap/fragmentation/span", {"bytes": 64}),
    Row("requested share of a full heap, 64 B", "heap/utilisation/share", {"bytes": 64}),
    Row("requested share of a full heap, 17 B", "heap/waste/share", {"bytes": 17}),
    Row("requested share of a full heap, 1025 B", "heap/waste/share", {"bytes": 1025}),
    Row("requested share of a full heap, 4097 B", "heap/waste/share", {"bytes": 4097}),
    Row("requested share of a full heap, 6 MiB", "heap/waste/share", {"bytes": 6 * MIB}),
    Row("requested share of a full heap, 8 MiB + 1", "heap/waste/share", {"bytes": 8 * MIB + 1}),
    Row("metadata ÷ heap, 8 GiB", "heap/init/metadata", {"heap_bytes": 8 << 30}),
    Row("share of a freed half allocated again, 64 B", "heap/reuse/share", {"bytes": 64}),
    Row("graph of 11.7 million edges: build", "heap/graph/init"),
    Row("graph: insert a batch", "heap/graph/insert"),
    Row("graph: delete a batch", "heap/graph/delete"),
    Row("graph: double each array", "heap/graph/expand"),
    Row("128 B a thread: allocate, fill, sum, free", "heap/in_use/total"),
    Row(
        "12,288 threads, 400 floats each: malloc alone",
        "coalesced/unit/allocate",
        unit_case("linear", 400),
    ),
    Row(
        "the same: allocate, set, sum, free",
        "coalesced/unit/total",
        unit_case("linear", 400),
    ),
    Row("make a heap of 8 GiB", "heap/init/construct"),
    Row("registers of a kernel that allocates", "heap/registers/malloc"),
    *(
        Row(f"hardened mode: {title}", bench, {"bytes": size}, quarry="quarry-hardened")
        for title, bench, size in [
            ("malloc, 64 B", "heap/single/malloc", 64),
            ("malloc, 4096 B", "heap/single/malloc", 4 * KIB),
            ("free, 64 B", "heap/single/free", 64),
            ("free, 4096 B", "heap/single/free", 4 * KIB),
            ("churn, 16 to 256 B", "heap/churn", 256),
        ]
    ),
]


@dataclass(frozen=True)
class HostCase:
    """A case of host_pool_bench: it replaces a random one of `live` allocations."""

    title: str
    live: int
    min_size: int
    max_size: int
    goal: int | None = None  # ns for a pair

    def selection(self):
        sizes = {"least": self.min_size, "most": self.max_size, "sizes": "uniform"}
        return {"live": self.live, **sizes}


ONE_LIVE = HostCase("64 B, nothing else allocated", 1, 64, 64)
HOST_CASES = [
    HostCase("256 B, 1000 allocated", 1000, 256, 256, 25),
    HostCase("1 to 4096 B, 10,000 allocated", 10_000, 1, 4 * KIB, 40),
    HostCase("1 B to 1 MiB, 10,000 allocated", 10_000, 1, MIB, 60),
    HostCase("1 KiB to 64 MiB, 300 allocated", 300, KIB, 64 * MIB, 60),
]


def lookup_case(live):
    """The params of a case of host_lookup_bench."""
    return {"live": live, "mean": 64, "where": "begin", "busy": "no"}


HOST_ROWS = [
    *(Row(case.title, "host/pool/pair", case.selection()) for case in [ONE_LIVE, *HOST_CASES]),
    Row("lookup of a record, 1000 allocated", "host/registry/find", lookup_case(1000)),
    Row("lookup of a record, 1,000,000 allocated", "host/registry/find", lookup_case(1_000_000)),
]
