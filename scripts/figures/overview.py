# SPDX-License-Identifier: Apache-2.0
"""README's table of Quarry and its peers, and docs/plots/README.md.

Quarry's figures come from bench/results. Programs outside this repository measured the peers, with
each peer's best settings, on another machine of the same kind. These figures are constants with a
date.
"""

from . import heuristics, kma
from .names import ALLOCATORS, HOST_NAMES, heading
from .plots import DEVICES, FIGURES, OPENCL_FIGURES, VM, picture
from .pools import HOST_CASES, HOST_ROWS, lookup_case
from .pools import runs as runs_of
from .records import flat, origin, point_text, value_text, x_text
from .table import DASH, Table, View, markdown

KIB, MIB, ALL = 1 << 10, 1 << 20, 1 << 20

# --- README.md

GPU = "nvidia-h200"
PEERS = ["Gallatin", "mallocMC", "RMM pool", "Umpire", "CUDA", "KMA"]
MEASURED = "2026-11-21 and 2026-11-22"
COMPARISONS = [  # title, unit, machine, benchmark, selection, peers
    (
        "`malloc` of 64 B by 2^20 threads, heap after a reset",
        "million a second",
        *(GPU, "heap/single/malloc", {"bytes": 64}),
        {"Gallatin": 4792, "mallocMC": 1956, "CUDA": 3.1},
    ),
    (
        "alternating `malloc` and `free` of 16 to 256 B by 65,536 threads",
        "million a second",
        *(GPU, "heap/churn", {"bytes": 256}),
        {"Gallatin": 2363, "mallocMC": 1974, "CUDA": 4.2},
    ),
    (
        "insert a batch of edges into a dynamic graph of 2^20 vertices",
        "ms",
        *(GPU, "heap/graph/insert", {}),
        {"Gallatin": 0.160, "mallocMC": 0.200, "CUDA": 314},
    ),
    (
        "100 pairs of `malloc` and `free` of 8 B by each of 4,608 OpenCL work-items",
        "ms",
        *(GPU, "opencl/pairs", {"variance": "none", "items": 4608}),
        {"KMA": kma.PAIRS["gpu"]["kma-none"][4608]},
    ),
    (
        "replace one of 10,000 host allocations of 1 B to 1 MiB of device memory",
        "ns",
        *(GPU, "host/pool/pair", HOST_CASES[2].selection()),
        {"RMM pool": 43_027, "CUDA": 2391},
    ),
    (
        "find the allocation that a pointer belongs to, among 10^6",
        "ns",
        *(VM, "host/registry/find", lookup_case(1_000_000)),
        {"Umpire": 1202},
    ),
]


def quarry_point(data, machine, bench, selection):
    if bench.startswith("host/pool/"):
        return data.runs(machine, bench, selection).get("quarry")
    if bench.startswith("opencl/"):
        selection = selection | {"device": DEVICES["gpu"].is_this}
    return data.point(machine, bench, **selection)


def comparison_rows(view):
    rows = {
        (title, unit): {"quarry": quarry_point(view.data, *where)} | peers
        for title, unit, *where, peers in COMPARISONS
    }
    return rows if all(row["quarry"] for row in rows.values()) else {}


def shown(name):
    """Writes the point of this name in a row of points."""

    def text(view, row):
        view.seen += [row[name]] if name in row else []
        return point_text(row.get(name))

    return text


comparison = Table(
    missing="`make bench`",
    any_machine=True,
    head=("", "unit"),
    rows=comparison_rows,
    columns={"**Quarry**": lambda view, row: f"**{shown('quarry')(view, row)}**"}
    | {
        peer: lambda view, row, peer=peer: value_text(row[peer]) if peer in row else DASH
        for peer in PEERS
    },
    cell=shown,
    after="Medians. Quarry: {origin}. "
    f"Peers: {MEASURED}, by programs outside this repository.\n"
    "The last row was measured on a virtual machine with two cores, the others on an NVIDIA H200 "
    f"and\nits host. KMA: {kma.MEASURED}; it corrupted {kma.CORRUPT_WORDS['kma-none']} words of "
    "live allocations in three runs.",
)

# --- docs/plots/README.md: the main figures

ROW_NAMES = {name for name in ALLOCATORS if name != "quarry-hardened"}
UNIT = {"workload": "linear", "floats": 400, "mode": "barrier", "grid": "paper"}
STATES = {"new heap": "fresh", "after another size": "used", "after a reset": "reset"}
LATENCIES = [
    (title, f"heap/churn/{call}/{part}", {"bytes": 256})
    for call in ("malloc", "free")
    for title, part in (
        (f"churn, 16 to 256 B: one {call}, median", "p50"),
        ("the same, 99 of 100", "p99"),
        ("the same, the slowest", "worst"),
    )
]
FULL = "requested share of a full heap"
ROWS = [
    ("malloc, 64 B", "heap/single/malloc", {"bytes": 64}),
    ("malloc, 1024 B", "heap/single/malloc", {"bytes": 1024}),
    ("malloc, 4096 B", "heap/single/malloc", {"bytes": 4096}),
    ("free, 64 B", "heap/single/free", {"bytes": 64}),
    ("malloc, 16 to 256 B", "heap/mixed/malloc", {"bytes": 256}),
    ("malloc, 64 B, heap never reset", "heap/warm/malloc", {"bytes": 64}),
    ("malloc, 4096 B, heap never reset", "heap/warm/malloc", {"bytes": 4096}),
    *(
        (f"malloc, {size} B, {title}", f"heap/state/{state}", {"bytes": size})
        for size in (64, 4 * KIB)
        for title, state in STATES.items()
    ),
    ("malloc, 64 B, one thread", "heap/scaling/malloc", {"bytes": 64, "threads": 1}),
    ("malloc, 64 B, 2^20 threads", "heap/scaling/malloc", {"bytes": 64, "threads": ALL}),
    ("256 threads malloc 1 MiB", "heap/large/malloc", {"bytes": MIB}),
    ("churn, 16 to 256 B", "heap/churn", {"bytes": 256}),
    ("churn, 16 to 4096 B", "heap/churn", {"bytes": 4 * KIB}),
    *LATENCIES,
    ("addresses used ÷ requested bytes, 64 B", "heap/fragmentation/span", {"bytes": 64}),
    (f"{FULL}, 64 B", "heap/utilisation/share", {"bytes": 64}),
    (f"{FULL}, 17 B", "heap/waste/share", {"bytes": 17}),
    (f"{FULL}, 1025 B", "heap/waste/share", {"bytes": 1025}),
    (f"{FULL}, 4097 B", "heap/waste/share", {"bytes": 4097}),
    (f"{FULL}, 6 MiB", "heap/waste/share", {"bytes": 6 * MIB}),
    (f"{FULL}, 8 MiB + 1", "heap/waste/share", {"bytes": 8 * MIB + 1}),
    ("metadata ÷ heap, 8 GiB", "heap/init/metadata", {"heap_bytes": 8 << 30}),
    ("share of a freed half allocated again, 64 B", "heap/reuse/share", {"bytes": 64}),
    ("graph of 11.7 million edges: build", "heap/graph/init", {}),
    ("graph: insert a batch", "heap/graph/insert", {}),
    ("graph: delete a batch", "heap/graph/delete", {}),
    ("graph: double each array", "heap/graph/expand", {}),
    ("128 B a thread: allocate, fill, sum, free", "heap/in_use/total", {}),
    ("12,288 threads, 400 floats each: malloc alone", "coalesced/unit/allocate", UNIT),
    ("the same: allocate, set, sum, free", "coalesced/unit/total", UNIT),
    ("make a heap of 8 GiB", "heap/init/construct", {}),
    ("registers of a kernel that allocates", "heap/registers/malloc", {}),
]


def main_rows(view):
    """Rows are {allocator: Point}."""
    rows = []
    for title, bench, selection in ROWS:
        found = view.points(bench, None, selection)
        names = [name for name in found if name in ROW_NAMES]
        names.sort(key="quarry".__eq__)  # Quarry's commit comes last
        rows.append((title, {name: found[name][None] for name in names}))
    return [(title, row) for title, row in rows if row]


def main_points(view):
    return [point for _, row in main_rows(view) for point in row.values()]


def host_rows(view):
    rows = ((title, runs_of(view, selection)) for title, selection in HOST_ROWS.items())
    return [(title, row) for title, row in rows if row]


def by_allocator(rows_of, names):
    """The columns of a table of such rows: the unit, and the allocators that have a point."""

    def columns(view):
        rows = rows_of(view)
        found = [name for name in names if any(name in row for _, row in rows)]
        unit = lambda _, row: next(iter(row.values())).unit.replace("us", "µs")  # noqa: E731
        return {"unit": unit} | {heading(name): shown(name) for name in found}

    return columns


MAIN = Table(
    rows=main_rows,
    words=lambda view: {"origin": origin(main_points(view))},
    columns=by_allocator(main_rows, ALLOCATORS),
    cell=shown,
    before="Medians on {machine}, {origin}; 2^20 threads and a heap of 8 GiB, reset\nbefore each "
    "round, unless said otherwise. The floor is one warp-aggregated `atomicAdd`, and\nnever frees.",
)
HOST = Table(
    missing=[],
    each=True,
    rows=host_rows,
    columns=by_allocator(host_rows, HOST_NAMES),
    cell=shown,
    before="Host pools (`fast_fit`) on {machine}, {memory} memory. A pair replaces a random "
    "allocation:\none deallocation, then one allocation. Lookups are of an allocation's first byte. "
    "Medians,\n{origin}.",
    words=lambda view: {
        "memory": "device" if any("cudaMalloc" in row for _, row in host_rows(view)) else "host"
    },
)


def main_figures(data):
    if not data.machines():
        return ["No figures yet: `make bench` measures this machine."]
    machine = data.machines()[0]
    hosts = HOST(data)
    return [
        *MAIN.lines_of(data, machine),
        "",
        *notes(main_points(View(data, machine))),
        *(["", *hosts] if hosts else []),
    ]


# --- All figures


def notes(points):
    """One note for all points that hang."""
    text = "the kernel did not end when it was tried; the benchmarks now leave it out"
    hung = any(point.error == "hangs" for point in points)
    return [f"`hangs`: {text} (bench/allocators.hpp)."] if hung else []


def figure_section(figure, machine, data):
    """A plot, and tables of the medians that it shows."""
    panels = [(panel, panel.points(data, machine)) for panel in figure.panels]
    everything = [point for _, found in panels for point in flat(found)]
    if not any(point.median is not None for point in everything):
        return
    yield from picture(figure.name, figure.title, machine)
    yield f"Medians, {origin(everything)}. {' '.join([*notes(everything), figure.note])}".rstrip()
    yield ""
    for panel, found in panels:
        xs = list(dict.fromkeys(x for series in found.values() for x in series))
        if panel.bench:
            xs.sort()
        if not xs:
            continue
        unit = flat(found)[0].unit.replace("us", "µs")
        head = [f"{panel.title} ({unit})", *(x_text(panel.x, x) for x in xs)]
        yield from markdown(
            head,
            [
                [heading(name), *(point_text(series.get(x)) for x in xs)]
                for name, series in found.items()
            ],
        )
        yield ""


def heuristic_section(machine, data):
    """The plot of the published heuristics."""
    if not heuristics.sweeps(data, machine):
        return
    yield from picture(heuristics.NAME, heuristics.TITLE, machine)
    yield "[Traces](../design/traces.md#the-posters-figures) says what the plot shows."
    yield ""


INTRODUCTION = """# Figures

`make bench` measures and writes `bench/results`; `make plots` writes this page from them. The
comment at the top of each program in `bench/` says what the program measures. Figures of CPU
threads are of the same programs with fewer threads and smaller heaps. They were measured on a
virtual machine that was busy with other work. The whiskers show how busy; small differences
mean nothing.

[Coalesced allocation](coalescing.md) has a page of its own.

## Main figures
"""


def page(data, tables):
    """docs/plots/README.md. `tables`: the lines of tables that design pages do not show."""
    lines = [INTRODUCTION, *main_figures(data), "", "## Tables of the design", "", *tables]
    failed = data.failures()
    for machine in data.machines():
        lines += [f"## {machine}", ""]
        for program, reason in sorted(failed.get(machine, {}).items()):
            lines += [f"`{program}` failed: {reason}.", ""]
        for figure in [*FIGURES, *OPENCL_FIGURES]:
            lines += figure_section(figure, machine, data)
        lines += heuristic_section(machine, data)
    return "\n".join(lines).rstrip() + "\n"
