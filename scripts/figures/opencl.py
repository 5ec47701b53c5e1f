# SPDX-License-Identifier: Apache-2.0
"""The OpenCL heap: docs/design/opencl.md."""

from .plots import DEVICES
from .records import value_text, x_text
from .table import Table, digits, value

# Sizes of opencl_utilisation_bench, and the goal for the share of the heap before a failure.
SHARES = {
    (16, 64, 256, 1024, 4096, 65_536, 1 << 20): "85 %",
    (17, 100, 200, 1000, 3000, 5000, 100_000): "80 %",
}


def device_columns(view):
    """What each measured device hands out before its first failure, and again after frees."""
    columns = []
    for device in DEVICES.values():
        selection = {"machine": device.machine, "device": device.is_this}
        if any(
            view.data.matching(device.machine, "opencl/utilisation", {"device": device.is_this})
        ):
            columns += [
                (f"{device.title}: before a failure", selection | {"bench": "opencl/utilisation"}),
                ("again", selection | {"bench": "opencl/reuse"}),
            ]
    return columns


GRAPHS = {"edges": None}
LARGE_GRAPHS = {"edges": 1 << 24}
WORK = {  # title -> benchmark without its first word, selection
    "one work-item, a pair of 4 B": ("pair", {"size": 4}),
    "4,608 work-items, 100 pairs of 8 B": ("pairs", {"items": 4608, "variance": "none"}),
    "65,536 work-items, 100 pairs of 8 B": ("pairs", {"items": 65_536, "variance": "none"}),
    "65,536 work-items, 100 pairs of 4 to 64 B": ("pairs", {"items": 65_536, "variance": "high"}),
    "1,048,576 work-items, the same": ("pairs", {"items": 1 << 20, "variance": "high"}),
    "16,384 work-items, 10 allocations of 4 or 8 B": ("allocate", {"items": 16_384}),
    "65,536 work-items, the same": ("allocate", {"items": 65_536}),
    "65,536 edges, 64 work-items": ("graph", {"items": 64} | GRAPHS),
    "65,536 edges, 4,608 work-items": ("graph", {"items": 4608} | GRAPHS),
    "16,777,216 edges, 16,384 work-items": ("graph", {"items": 16_384} | LARGE_GRAPHS),
    "16,777,216 edges, 65,536 work-items": ("graph", {"items": 65_536} | LARGE_GRAPHS),
}


def both(write):
    """The writer for a row of WORK: `write` gets the points of the OpenCL heap and the CUDA heap."""

    def text(view, row):
        bench, selection = row
        own = {"bench": f"opencl/{bench}", "device": DEVICES["gpu"].is_this}
        cuda = {"bench": f"heap/opencl_work/{bench}"}
        points = [view.point(selection | more) for more in (own, cuda)]
        return write(*points) if all(p and p.median is not None for p in points) else None

    return text


TABLES = {
    "utilisation": Table(
        missing=["Not measured yet: `opencl_utilisation_bench`."],
        any_machine=True,
        keep=True,
        before="*Before a failure*: requested bytes when the first malloc fails, divided by the "
        "buffer's bytes.\n*Again*: three of four allocations are freed; the share of their memory that "
        "is allocated again.\nMedians, {origin}.",
        head=("size", "goal"),
        rows={
            (x_text("bytes", size), goal): {"bytes": size}
            for sizes, goal in SHARES.items()
            for size in sizes
        },
        columns=device_columns,
        cell=value(digits("{:.1f} %"), 100),
    ),
    # The same work on the OpenCL heap and on the CUDA heap of one GPU.
    "portability": Table(
        missing=["Not measured yet: `heap_opencl_work_bench` on a GPU."],
        needs=("heap/opencl_work/pair",),
        before="The same kernels, {origin}:",
        head="{machine}",
        rows=WORK,
        columns={
            "unit": both(lambda own, _: own.unit),
            "OpenCL heap": both(lambda own, _: value_text(own.median)),
            "CUDA heap": both(lambda _, cuda: value_text(cuda.median)),
            "÷": both(lambda own, cuda: value_text(own.median / cuda.median)),
        },
        cell=value(),
    ),
}
