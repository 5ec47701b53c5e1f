# SPDX-License-Identifier: Apache-2.0
"""The plots: draw.py draws them and overview.py writes their tables."""

from dataclasses import dataclass, field, replace

from . import kma
from .names import UPSTREAMS
from .records import Point, flat

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

    def points(self, data, machine):
        """{allocator: {x or the label of the benchmark: Point}}"""
        if self.bench:
            return data.points(machine, self.bench, self.x, self.selection)
        found = {}
        for label, bench in self.side_by_side.items():
            for allocator, series in data.points(machine, bench, None, self.selection).items():
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


def picture(name, title, machine, folder="", heading="### "):
    """The lines of a plot in a page."""
    path = f"{folder}{name}.{machine}"
    return [
        *([heading + title, ""] if heading else []),
        f"[![{title}]({path}.png)]({path}.svg)",
        "",
    ]


def panels(better, benches, x="bytes", **selection):
    """A panel for each benchmark of the heap: `title: bench, title: bench`."""
    titles = (each.split(": ") for each in benches.split(", "))
    return [Panel(title, better, f"heap/{bench}", x, selection) for title, bench in titles]


def side_by_side(title, benches, **selection):
    """One panel of several benchmarks, by their labels."""
    labels = dict(each.split(": ") for each in benches.split(", "))
    benches = {label: f"heap/{bench}" for label, bench in labels.items()}
    return Panel(title, LOWER, selection=selection, side_by_side=benches)


ONCE = "Each thread allocates once, then frees: "
STATES = "new heap: state/fresh, after another size: state/used, after a reset: state/reset"
GRAPH = "init: graph/init, insert: graph/insert, delete: graph/delete, expand: graph/expand"
USE = "malloc: in_use/malloc, use: in_use/use, free: in_use/free, all three: in_use/total"
LATENCIES = {"median": "p50", "99 of 100": "p99", "slowest": "worst"}
FIGURES = [
    Figure(
        "one-size",
        ONCE + "one size, heap reset before each round",
        panels(HIGHER, "malloc: single/malloc, free: single/free"),
    ),
    Figure(
        "mixed-sizes",
        ONCE + "a random size from 16 B up to …",
        panels(HIGHER, "malloc: mixed/malloc, free: mixed/free"),
    ),
    Figure(
        "used-heap",
        ONCE + "one size, heap never reset",
        panels(HIGHER, "malloc: warm/malloc, free: warm/free"),
    ),
    Figure(
        "states",
        "Each thread allocates once, one size, from a heap in one of three states",
        panels(HIGHER, STATES),
        columns=3,
    ),
    Figure(
        "scaling",
        "Time until all threads have allocated, or freed, once",
        [
            panel
            for call in ("malloc", "free")
            for size in (64, 512)
            for panel in panels(LOWER, f"{call} of {size} B: scaling/{call}", "threads", bytes=size)
        ],
    ),
    Figure(
        "churn",
        "Churn: each thread repeatedly frees an allocation and makes another, 16 B up to …",
        panels(HIGHER, "malloc and free: churn") + panels(LOWER, "failed: churn/failures")
        + [
            side_by_side(
                f"16 to 256 B: one {call}",
                ", ".join(f"{title}: churn/{call}/{part}" for title, part in LATENCIES.items()),
                bytes=256,
            )
            for call in ("malloc", "free")
        ],
    ),
    Figure(
        "fragmentation",
        "Distance from the lowest address in use to the highest, divided by the requested bytes",
        panels(LOWER, "one size: fragmentation/span, 16 B up to …: fragmentation/mixed_span"),
    ),
    Figure(
        "fill",
        "Threads allocate until each malloc fails, free a random half, and fill the heap again",
        panels(HIGHER, "requested share of a full heap: utilisation/share")
        + panels(LOWER, "time to fill: utilisation/fill")
        + panels(HIGHER, "share of that half allocated again: reuse/share")
        + panels(LOWER, "time to fill again: reuse/fill"),
    ),
    Figure(
        "large",
        "Large allocations: time until each thread has one",
        panels(LOWER, "malloc: large/malloc, free: large/free")
        + panels(HIGHER, "threads served: large/successes"),
        columns=3,
    ),
    Figure(
        "graph-and-work",
        "Real work: a graph whose arrays grow and shrink; arrays that are filled and summed",
        [
            side_by_side("graph", GRAPH),
            side_by_side("128 bytes a thread, summed", f"{USE}, one kernel: in_use/one_kernel"),
        ],
    ),
    Figure(
        "set-up",
        "Cost of a heap before its first allocation",
        [
            side_by_side("host time", "make: init/construct, reset: init/reset"),
            side_by_side("registers of a kernel", "malloc: registers/malloc, free: registers/free"),
        ],
    ),
]


def figures_of(machine):
    """The figures of the heap, on GPUs alone."""
    return FIGURES if "nvidia" in machine else []


# --- Figures 1 and 2 of the coalescing paper, from coalesced_unit_bench, in both modes and grids

# The additions and multiplications of a thread with n floats, as the paper counts them.
OPERATIONS = {"linear": lambda n: n, "quadratic": lambda n: 2 * n * n}
GRIDS = {"paper": "12 × 1024 threads", "full": "1024 threads on each multiprocessor"}
OVER = {"quarry": "over Quarry", "cuda": "over CUDA's malloc", "libc": "over the C library"}
# The ways in each panel, at most six: allocators without coalescing and ways of thread blocks, then
# the ways of warps.
PANEL_WAYS = {
    "blocks": ("quarry", "cuda", "libc", "bump", "header-block", "map-block"),
    "warps": ("quarry", "header-warp", "map-warp", "dynamic", "reserved", "packed"),
}


def flops(point, workload):
    """Gflop/s of all threads together, computed from a thread's mean cycles of work."""
    done = point.params["threads"] * OPERATIONS[workload](point.params["floats"])
    values = {
        name: done * point.params["mhz"] / value / 1e3
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

    def is_shown(self, allocator):
        upstream, plus, _ = allocator.partition("+")
        is_over = not plus or upstream == self.upstream
        return is_over and allocator.rpartition("+")[2] in self.ways

    def points(self, data, machine):
        found = super().points(data, machine)
        found = {name: series for name, series in found.items() if self.is_shown(name)}
        if not any("+" in name for name in found):
            return {}
        workload = self.selection["workload"]
        return {
            name: {x: flops(p, workload) if p.values else p for x, p in series.items()}
            for name, series in found.items()
        }


COALESCED_FIGURES = [
    Figure(
        f"coalesced-{workload}-{grid}",
        f"{workload.capitalize()} work on arrays of n floats for each thread, {threads}",
        [
            Performance(
                f"{OVER[upstream]}, {mode_name}: {ways}",
                HIGHER,
                "coalesced/unit/work",
                "floats",
                {"workload": workload, "mode": mode, "grid": grid},
                lines=True,
                upstream=upstream,
                ways=PANEL_WAYS[ways],
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


@dataclass(frozen=True)
class Device:
    """An OpenCL device, and whether a record's device is this one."""

    title: str
    machine: str
    is_this: object


POCL_NAMES = ("pthread", "cpu", "basic")
VM = "x86-64-2-core-vm"
DEVICES = {
    "pocl": Device("PoCL on two cores", VM, lambda name: (name or "").startswith(POCL_NAMES)),
    "intel": Device(
        "Intel's runtime on two cores",
        VM,
        lambda name: not (name or "").startswith(("NVIDIA", *POCL_NAMES)),
    ),
    "gpu": Device("NVIDIA H200", "nvidia-h200", lambda name: (name or "").startswith("NVIDIA")),
}


@dataclass
class DevicePanel(Panel):
    """A benchmark on one device, beside the original's figures."""

    device: str = ""
    series: dict = field(default_factory=dict)  # name -> (allocator, more selection)

    def points(self, data, machine):
        device = DEVICES[self.device]
        if machine != device.machine:
            return {}
        found = {}
        for name, (allocator, more) in self.series.items():
            selection = (self.selection or {}) | more | {"device": device.is_this}
            series = data.points(machine, self.bench, self.x, selection).get(allocator)
            if series:
                found[name] = series
        if not found:
            return {}
        unit = flat(found)[0].unit
        for name, values in kma.FIGURES[self.bench][self.device].items():
            found[name] = {x: Point({"median": y}, unit=unit) for x, y in values.items()}
        return found


def opencl_figure(device):
    """The plot of a device; at most six series in each panel."""
    own = {name: (name.replace("-", " "), {}) for name in ("quarry", "quarry-reserve", "ring")}
    kinds = {f"quarry-{kind}": ("quarry", {"variance": kind}) for kind in ("none", "low", "high")}

    def panel(title, bench, x, x_label, series, selection=None):
        look = {"lines": True, "is_logarithmic": True, "x_label": x_label}
        more = {"device": device, "series": series}
        return DevicePanel(title, LOWER, f"opencl/{bench}", x, selection, **look, **more)

    items = ("items", "work-items")
    pair = {name: own[name] for name in ("quarry", "ring")}
    larger = {"edges": None}  # the larger graph's records have this param
    note = f"KMA: {kma.MEASURED}, {kma.CONDITION}."
    return Figure(
        f"opencl-{device}",
        f"OpenCL on {DEVICES[device].title}: figures 4 to 7 of KMA's paper",
        [
            panel("4: one work-item, a pair of malloc and free", "pair", "size", "bytes", pair),
            panel("5: 100 pairs of each work-item", "pairs", *items, kinds),
            panel("6: 10 allocations of each work-item", "allocate", *items, own),
            panel("7: a graph of 65,536 edges", "graph", *items, own, larger),
        ],
        note=f"{note} {kma.GPU_NOTE}" if device == "gpu" else note,
        legend_in_panels=True,
    )


OPENCL_FIGURES = [opencl_figure(device) for device in DEVICES]
