# SPDX-License-Identifier: Apache-2.0
"""The OpenCL heap: figures 4 to 7 of KMA's paper, and measured parts of docs/design/opencl.md."""

from dataclasses import dataclass, field

import kma
from bench_records import Point, origin, points, value_text, x_text
from figures import LOWER, Figure, Panel
from markdown import table

DEVICES = {
    "pocl": ("PoCL on two cores", "x86-64-2-core-vm"),
    "intel": ("Intel's runtime on two cores", "x86-64-2-core-vm"),
    "gpu": ("NVIDIA H200", "nvidia-h200"),
}
NAMES = {
    "quarry": "Quarry",
    "quarry-reserve": "Quarry, reserve of each work-item",
    "quarry-none": "Quarry, 8 B",
    "quarry-low": "Quarry, 8 or 16 B",
    "quarry-high": "Quarry, 4 to 64 B",
    "ring": "ring (never frees)",
    "kma": "KMA",
    "kma-list": "KMA, ArrayList",
    "kma-cache": "KMA, keeps spare nodes",
    "kma-ring": "KMA's ring",
    "kma-none": "KMA, 8 B",
    "kma-low": "KMA, 8 or 16 B",
    "kma-high": "KMA, 4 to 64 B",
}


def device_kind(record):
    """A key of DEVICES, by the name of the record's device."""
    name = record["params"].get("device", "")
    if name.startswith("NVIDIA"):
        return "gpu"
    return "pocl" if name.startswith(("pthread", "cpu", "basic")) else "intel"


def records_of(records, device):
    """The records of OpenCL programs on this device."""
    return [
        record
        for record in records
        if record["bench"].startswith("opencl/") and device_kind(record) == device
    ]


@dataclass
class DevicePanel(Panel):
    """A benchmark on one device, beside the original's figures."""

    device: str = ""
    series: dict = field(default_factory=dict)  # name -> (allocator, more selection)
    original: dict = field(default_factory=dict)  # name -> {x: value}

    def points(self, records, machine):
        if machine != DEVICES[self.device][1]:
            return {}
        own = records_of(records, self.device)
        found = {}
        for name, (allocator, more) in self.series.items():
            selection = (self.selection or {}) | more
            series = points(own, machine, self.bench, self.x, selection).get(allocator)
            if series:
                found[name] = series
        if not found:
            return {}
        unit = next(point.unit for series in found.values() for point in series.values())
        for name, values in self.original.items():
            found[name] = {x: Point({"median": y}, unit=unit) for x, y in values.items()}
        return found


def plain(*names):
    return {name: (name.replace("-", " "), {}) for name in names}


def device_panels(device):
    """The panels of a device; at most six series each."""
    common = {"device": device, "lines": True, "is_logarithmic": True}
    by_items = {"x": "items", "x_label": "work-items"} | common
    return [
        DevicePanel(
            "4: one work-item, a pair of malloc and free",
            LOWER,
            "opencl/pair",
            "size",
            x_label="bytes",
            series=plain("quarry", "ring"),
            original=kma.PAIR[device],
            **common,
        ),
        DevicePanel(
            "5: 100 pairs of each work-item",
            LOWER,
            "opencl/pairs",
            series={
                f"quarry-{kind}": ("quarry", {"variance": kind}) for kind in ("none", "low", "high")
            },
            original=kma.PAIRS[device],
            **by_items,
        ),
        DevicePanel(
            "6: 10 allocations of each work-item",
            LOWER,
            "opencl/allocate",
            series=plain("quarry", "quarry-reserve", "ring"),
            original=kma.ALLOCATE[device],
            **by_items,
        ),
        DevicePanel(
            "7: a graph of 65,536 edges",
            LOWER,
            "opencl/graph",
            selection={"edges": None},  # the larger graph's records have this param
            series=plain("quarry", "quarry-reserve", "ring"),
            original=kma.GRAPH[device],
            **by_items,
        ),
    ]


def figure(device):
    note = f"KMA: {kma.MEASURED}, {kma.CONDITION}."
    return Figure(
        f"opencl-{device}",
        f"OpenCL on {DEVICES[device][0]}: figures 4 to 7 of KMA's paper",
        device_panels(device),
        note=f"{note} {kma.GPU_NOTE}" if device == "gpu" else note,
        legend_in_panels=True,
    )


OPENCL_FIGURES = [figure(device) for device in DEVICES]


# --- docs/design/opencl.md


def plots(records):
    """The figures, as images."""
    lines = []
    for device, shown in zip(DEVICES, OPENCL_FIGURES):
        machine = DEVICES[device][1]
        found = [panel.points(records, machine) for panel in shown.panels]
        everything = [p for panel in found for series in panel.values() for p in series.values()]
        if not everything:
            continue
        path = f"../plots/{shown.name}.{machine}"
        lines += [f"[![{shown.title}]({path}.png)]({path}.svg)", ""]
        lines += [f"{DEVICES[device][0]}: {origin(everything)}. {shown.note}", ""]
    return lines[:-1] or ["Not measured yet: `opencl_heap_bench`."]


# Sizes of opencl_utilisation_bench, and the goal for the share of the heap before a failure.
SHARES = [
    ((16, 64, 256, 1024, 4096, 65_536, 1 << 20), 0.85),
    ((17, 100, 200, 1000, 3000, 5000, 100_000), 0.8),
]


def utilisation(records):
    """What a heap hands out before its first failure, and how much of freed memory again."""
    benches = ("opencl/utilisation", "opencl/reuse")
    found = {
        (device, bench): points(
            records_of(records, device), DEVICES[device][1], bench, "bytes"
        ).get("quarry", {})
        for device in DEVICES
        for bench in benches
    }
    devices = [device for device in DEVICES if found[device, benches[0]]]
    if not devices:
        return ["Not measured yet: `opencl_utilisation_bench`."]
    rows = []
    for sizes, goal in SHARES:
        for size in sizes:
            texts = []
            for device in devices:
                for bench in benches:
                    point = found[device, bench].get(size)
                    is_known = point and point.median is not None
                    texts.append(f"{100 * point.median:.1f} %" if is_known else "–")
            rows.append([x_text("bytes", size), f"{100 * goal:.0f} %", *texts])
    everything = [p for device in devices for b in benches for p in found[device, b].values()]
    head = ["size", "goal"]
    for device in devices:
        head += [f"{DEVICES[device][0]}: before a failure", "again"]
    return [
        "*Before a failure*: requested bytes when the first malloc fails, "
        "divided by the buffer's bytes.",
        "*Again*: three of four allocations are freed; "
        "the share of their memory that is allocated again.",
        f"Medians, {origin(everything)}.",
        "",
        *table(head, rows),
    ]


# Title, benchmark without its first word, selection.
WORK = [
    ("one work-item, a pair of 4 B", "pair", {"size": 4}),
    ("4,608 work-items, 100 pairs of 8 B", "pairs", {"items": 4608, "variance": "none"}),
    ("65,536 work-items, 100 pairs of 8 B", "pairs", {"items": 65_536, "variance": "none"}),
    ("65,536 work-items, 100 pairs of 4 to 64 B", "pairs", {"items": 65_536, "variance": "high"}),
    ("1,048,576 work-items, the same", "pairs", {"items": 1 << 20, "variance": "high"}),
    ("16,384 work-items, 10 allocations of 4 or 8 B", "allocate", {"items": 16_384}),
    ("65,536 work-items, the same", "allocate", {"items": 65_536}),
    ("65,536 edges, 64 work-items", "graph", {"items": 64, "edges": None}),
    ("65,536 edges, 4,608 work-items", "graph", {"items": 4608, "edges": None}),
    ("16,777,216 edges, 16,384 work-items", "graph", {"items": 16_384, "edges": 1 << 24}),
    ("16,777,216 edges, 65,536 work-items", "graph", {"items": 65_536, "edges": 1 << 24}),
]


def portability(records):
    """The same work on the OpenCL heap and on the CUDA heap of one GPU."""
    machine = DEVICES["gpu"][1]
    rows, everything = [], []
    for title, bench, selection in WORK:
        own = points(records_of(records, "gpu"), machine, f"opencl/{bench}", None, selection)
        cuda = points(records, machine, f"heap/opencl_work/{bench}", None, selection)
        pair = [found.get("quarry", {}).get(None) for found in (own, cuda)]
        if not all(point and point.median is not None for point in pair):
            continue
        everything += pair
        quotient = pair[0].median / pair[1].median
        texts = [value_text(point.median) for point in pair]
        rows.append([title, pair[0].unit, *texts, value_text(quotient)])
    if not rows:
        return ["Not measured yet: `heap_opencl_work_bench` on a GPU."]
    head = [machine, "unit", "OpenCL heap", "CUDA heap", "÷"]
    return [f"The same kernels, {origin(everything)}:", "", *table(head, rows)]


SECTIONS = {"plots": plots, "utilisation": utilisation, "portability": portability}
