# SPDX-License-Identifier: Apache-2.0
"""The plots as specifications, and their parts of docs/plots/README.md. draw.py draws them."""

import re
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from .records import origin, point_text, select, x_text
from .specs import HEAPS, NAMES, UPSTREAMS, VARIABLES
from .table import markdown

HIGHER, LOWER = "higher is better", "lower is better"


@dataclass
class Panel:
    """One pair of axes: a benchmark by one of its params, or several benchmarks side by side."""

    title: str
    better: str
    selection: str | dict
    x: str = "bytes"
    series: dict = field(default_factory=lambda: {n: {"allocator": n} for n in HEAPS})
    side_by_side: dict = field(default_factory=dict)  # label -> selection, in place of `x`
    convert: Callable = lambda point: point

    def points(self, data, machine):
        """{name of a series: {x or the label of the benchmark: Point}}"""
        found = {}
        for name, chosen in self.series.items():
            chosen = select(self.selection, chosen)
            beside = {x: select(chosen, more) for x, more in self.side_by_side.items()}
            points = {x: data.point(more, machine) for x, more in beside.items()}
            points = points or data.series(chosen, machine, self.x)
            found[name] = {x: self.convert(point) for x, point in points.items() if point}
        return {name: series for name, series in found.items() if series}

    def xs(self, found):
        xs = list(dict.fromkeys(x for series in found.values() for x in series))
        return xs if self.side_by_side else sorted(xs)


def flat(found):
    """The points of {name: {x: Point}}."""
    return [point for series in found.values() for point in series.values()]


@dataclass
class Figure:
    name: str
    title: str
    panels: list
    columns: int = 2
    machine: str = "nvidia*"
    note: str = ""  # about series that are not from bench/results
    legend_in_panels: bool = False  # beside the lines of each panel, since panels have other series

    def points(self, data, machine):
        """The panels that have values, with their points."""
        is_here = fnmatchcase(machine, self.machine)
        found = [(panel, panel.points(data, machine)) for panel in self.panels if is_here]
        return [pair for pair in found if any(p.median is not None for p in flat(pair[1]))]

    def section(self, data, machine):
        """A plot, and tables of the medians that it shows."""
        panels = self.points(data, machine)
        if not panels:
            return
        everything = [point for _, found in panels for point in flat(found)]
        hangs = [HANGS] * any(point.error == "hangs" for point in everything)
        notes = [f"Medians, {origin(everything)}.", *hangs, *filter(None, [self.note])]
        yield from picture(self.name, self.title, machine)
        yield from [" ".join(notes), ""]
        for panel, found in panels:
            xs = panel.xs(found)
            head = [f"{panel.title} ({flat(found)[0].unit})", *(x_text(panel.x, x) for x in xs)]
            texts = {name: [point_text(s.get(x)) for x in xs] for name, s in found.items()}
            names = NAMES["opencl"] | HEAPS | {"quarry": "**Quarry**"}
            yield from markdown(head, [[names[name], *row] for name, row in texts.items()])
            yield ""


HANGS = (
    "`hangs`: the kernel did not end when it was tried; the benchmarks now leave it out "
    "(bench/allocators.hpp)."
)


def picture(name, title, machine):
    """The lines of a plot in a page."""
    path = f"{name}.{machine}"
    return [f"### {title}", "", f"[![{title}]({path}.png)]({path}.svg)", ""]


# A figure: its name, /columns if not 2, and title. A panel: whether higher (↑) or lower (↓) is
# better, title > selection; `x` is a param, bytes if absent. Lines below a panel: its benchmarks
# side by side.
HEAP = """
one-size Each thread allocates once, then frees: one size, heap reset before each round
  ↑ malloc > heap/single/malloc
  ↑ free > heap/single/free
mixed-sizes Each thread allocates once, then frees: a random size from 16 B up to …
  ↑ malloc > heap/mixed/malloc
  ↑ free > heap/mixed/free
used-heap Each thread allocates once, then frees: one size, heap never reset
  ↑ malloc > heap/warm/malloc
  ↑ free > heap/warm/free
states/3 Each thread allocates once, one size, from a heap in one of three states
  ↑ new heap > heap/state/fresh
  ↑ after another size > heap/state/used
  ↑ after a reset > heap/state/reset
scaling Time until all threads have allocated, or freed, once
  ↓ malloc of 64 B > heap/scaling/malloc bytes=64 x=threads
  ↓ malloc of 512 B > heap/scaling/malloc bytes=512 x=threads
  ↓ free of 64 B > heap/scaling/free bytes=64 x=threads
  ↓ free of 512 B > heap/scaling/free bytes=512 x=threads
churn Churn: each thread repeatedly frees an allocation and makes another, 16 B up to …
  ↑ malloc and free > heap/churn
  ↓ failed > heap/churn/failures
  ↓ 16 to 256 B: one malloc
    median > heap/churn/malloc/p50 bytes=256
    99 of 100 > heap/churn/malloc/p99 bytes=256
    slowest > heap/churn/malloc/worst bytes=256
  ↓ 16 to 256 B: one free
    median > heap/churn/free/p50 bytes=256
    99 of 100 > heap/churn/free/p99 bytes=256
    slowest > heap/churn/free/worst bytes=256
fragmentation Distance from the lowest address in use to the highest, divided by the requested bytes
  ↓ one size > heap/fragmentation/span
  ↓ 16 B up to … > heap/fragmentation/mixed_span
fill Threads allocate until each malloc fails, free a random half, and fill the heap again
  ↑ requested share of a full heap > heap/utilisation/share
  ↓ time to fill > heap/utilisation/fill
  ↑ share of that half allocated again > heap/reuse/share
  ↓ time to fill again > heap/reuse/fill
large/3 Large allocations: time until each thread has one
  ↓ malloc > heap/large/malloc
  ↓ free > heap/large/free
  ↑ threads served > heap/large/successes
graph-and-work Real work: a graph whose arrays grow and shrink; arrays that are filled and summed
  ↓ graph
    init > heap/graph/init
    insert > heap/graph/insert
    delete > heap/graph/delete
    expand > heap/graph/expand
  ↓ 128 bytes a thread, summed
    malloc > heap/in_use/malloc
    use > heap/in_use/use
    free > heap/in_use/free
    all three > heap/in_use/total
    one kernel > heap/in_use/one_kernel
set-up Cost of a heap before its first allocation
  ↓ host time
    make > heap/init/construct
    reset > heap/init/reset
  ↓ registers of a kernel
    malloc > heap/registers/malloc
    free > heap/registers/free
"""


def figures_of(text):
    figures = []
    for line in text.strip().splitlines():
        depth = len(line) - len(line.lstrip())
        title, _, selection = line.strip().partition(" > ")
        if depth == 0:
            name, _, title = title.partition(" ")
            name, _, columns = name.partition("/")
            figures.append(Figure(name, title, [], int(columns or 2)))
        elif depth == 2:
            chosen = {"x": "bytes"} | select(selection)
            better = HIGHER if title[0] == "↑" else LOWER
            figures[-1].panels.append(Panel(title[2:], better, chosen, chosen.pop("x")))
        else:
            figures[-1].panels[-1].side_by_side[title] = selection
    return figures


FIGURES = figures_of(HEAP)

# --- Figures 1 and 2 of the coalescing paper, from coalesced_unit_bench, in both modes and grids

# The additions and multiplications of a thread with n floats, as the paper counts them.
OPERATIONS = {"linear": lambda n: n, "quadratic": lambda n: 2 * n * n}
GRIDS = {"paper": "12 × 1024 threads", "full": "1024 threads on each multiprocessor"}
OVER = {"quarry": "over Quarry", "cuda": "over CUDA's malloc"}
# The ways in each panel, at most six: allocators without coalescing and ways of thread blocks, then
# the ways of warps.
PANEL_WAYS = {
    "blocks": ("quarry", "cuda", "bump", "+header-block", "+map-block"),
    "warps": ("quarry", "+header-warp", "+map-warp", "+dynamic", "+reserved", "+packed"),
}


def flops(point):
    """Gflop/s of all threads together, computed from a thread's mean cycles of work."""
    done = point.params["threads"] * OPERATIONS[point.params["workload"]](point.params["floats"])
    rate = lambda name: done * point.params["mhz"] / point.values[name] / 1e3  # noqa: E731
    names = {"median": "median", "p10": "p90", "p90": "p10"}  # the slowest time is the lowest rate
    result = copy(point)
    result.values = {name: rate(old) for name, old in names.items() if point.values.get(old)}
    result.unit = "Gflop/s"
    return result


COALESCED_FIGURES = [
    Figure(
        f"coalesced-{workload}-{grid}",
        f"{workload.capitalize()} work on arrays of n floats for each thread, {threads}",
        [
            Panel(
                f"{OVER[upstream]}, {mode_name}: {ways}",
                HIGHER,
                f"coalesced/unit/work workload={workload} mode={mode} grid={grid}",
                "floats",
                {
                    name: {"allocator": name}
                    for way in PANEL_WAYS[ways]
                    for name in [upstream + way if way[0] == "+" else way]
                },
                convert=flops,
            )
            for upstream in UPSTREAMS
            for ways in PANEL_WAYS
            for mode, mode_name in (("none", "no barrier"), ("barrier", "barrier"))
        ],
    )
    for workload in OPERATIONS
    for grid, threads in GRIDS.items()
]

# --- Figures 4 to 7 of KMA's paper, on the OpenCL heap

KMA = (
    "KMA: 2026-11, the sources of 2014, with types corrected, by programs outside this repository. "
    "It looks up nodes in a binary tree, where these kernels have a hash table."
)
KMA_ON_A_GPU = (
    " Its times contain writes to the memory and their check. It corrupted 25 / 6 / 22 words of "
    "live allocations at 4,608 work-items in three runs of 8 B, of 8 or 16 B, and of 4 to 64 B, and "
    "lost the context at 16,384. Its figures 6 and 7 were not measured."
)


def series_of(*names):
    """Series by name. `-none`, `-low` and `-high` are variances, the rest an allocator."""
    parts = {name: re.fullmatch("(.*?)(?:-(none|low|high))?", name).groups() for name in names}
    return {
        name: {"allocator": allocator.replace("-", " ")} | ({"variance": kind} if kind else {})
        for name, (allocator, kind) in parts.items()
    }


DEVICES = [
    ("pocl", "PoCL on two cores", VARIABLES["POCL"]),
    ("intel", "Intel's runtime on two cores", VARIABLES["INTEL"]),
    ("gpu", "NVIDIA H200", VARIABLES["H200"]),
]
OWN = ("quarry", "quarry-reserve", "ring")
VARIANCES = [f"{name}-{kind}" for name in ("quarry", "kma") for kind in ("none", "low", "high")]
OPENCL_PANELS = [  # title, selection, x, series
    ("4: one work-item, a pair of malloc and free", "pair", "size", ("quarry", "ring", "kma")),
    ("5: 100 pairs of each work-item", "pairs", "items", VARIANCES),
    ("6: 10 allocations of each work-item", "allocate", "items", (*OWN, "kma", "kma-list", "kma-ring")),
    ("7: a graph of 65,536 edges", "graph edges=None", "items", (*OWN, "kma", "kma-cache", "kma-ring")),
]
OPENCL_FIGURES = [
    Figure(
        f"opencl-{name}",
        f"OpenCL on {title}: figures 4 to 7 of KMA's paper",
        [
            Panel(panel, LOWER, f"opencl/{chosen} {device}", x, series_of(*series))
            for panel, chosen, x, series in OPENCL_PANELS
        ],
        machine=select(device)["machine"],
        note=KMA + (KMA_ON_A_GPU if name == "gpu" else ""),
        legend_in_panels=True,
    )
    for name, title, device in DEVICES
]
