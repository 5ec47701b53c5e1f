# SPDX-License-Identifier: Apache-2.0
"""README's table of Quarry and its peers, and docs/plots/README.md.

Quarry's figures come from bench/results. Programs outside this repository measured the peers, with
each peer's best settings, on another machine of the same kind. These figures are constants with a
date.
"""

from . import heuristics, kma
from .names import heading
from .plots import DEVICES, OPENCL_FIGURES, VM, figures_of, picture
from .pools import HOST_CASES, lookup_case
from .records import flat, origin, point_text, value_text, x_text
from .table import DASH, Table, markdown

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
        *(GPU, "host/pool/pair", HOST_CASES[3].selection()),
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

# --- docs/plots/README.md


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
comment at the top of each program in `bench/` says what the program measures. Heaps on a GPU have
8 GiB and serve 2^20 threads, unless said otherwise. The *floor* is one warp-aggregated `atomicAdd`,
and never frees. The virtual machine was busy with other work. Whiskers show how busy; small
differences mean nothing there.

[Coalesced allocation](coalescing.md) has a page of its own.
"""


def page(data, tables):
    """docs/plots/README.md. `tables`: the lines of tables that design pages do not show."""
    lines = [INTRODUCTION]
    failed = data.failures()
    for machine in data.machines():
        lines += [f"## {machine}", ""]
        for program, reason in sorted(failed.get(machine, {}).items()):
            lines += [f"`{program}` failed: {reason}.", ""]
        for figure in [*figures_of(machine), *OPENCL_FIGURES]:
            lines += figure_section(figure, machine, data)
        lines += heuristic_section(machine, data)
    lines += ["## Tables of the design", "", *tables]
    return "\n".join(lines).rstrip() + "\n"
