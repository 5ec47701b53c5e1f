# SPDX-License-Identifier: Apache-2.0
"""Tables of the heaps: docs/design/heap.md, lane_arrays.md and opencl.md."""

from .records import point_text, value_text, x_text
from .table import Table, at, blocks, each, found, lines, of_point, ratio, value

METADATA = Table(
    found("{heap_bytes}", "heap/init/metadata", "heap_bytes"),
    {
        "metadata": "heap/init/metadata",
        "device memory taken beyond the heap's size": "heap/init/device_memory",
    },
    value("{:.2f} %", 100),
    "heap",
    "Metadata, as a share of the heap, on {machine}, {origin}:",
)
USE = [
    found("{bytes} | {heap_bytes}", f"heap/{kind}/share", "bytes heap_bytes")
    for kind in ("utilisation", "waste")
]
SHARES = Table(
    USE,
    {"by the size classes": "heap/waste/by_size_classes", "measured": ""},
    head="size | heap",
    before="Requested bytes in a full heap, divided by the heap's bytes, for sizes of a class and "
    "for\nthe sizes that fit worst, on {machine}, {origin}:",
)
SIZES, MIXED = (16, 64, 256, 4096), (256, 4096)
HARDENED = Table(
    [
        each("malloc, {bytes}", "heap/single/malloc", bytes=SIZES),
        each("free, {bytes}", "heap/single/free", bytes=SIZES),
        each("malloc, mixed sizes from 16 B up to {bytes}", "heap/mixed/malloc", bytes=MIXED),
        each("free, mixed sizes from 16 B up to {bytes}", "heap/mixed/free", bytes=MIXED),
        each("churn from 16 B up to {bytes}", "heap/churn", bytes=(256, 1024, 4096)),
    ],
    {
        "as built by default": "",
        "hardened": "allocator=quarry-hardened",
        "left": ratio("allocator=quarry-hardened", "", lambda share: f"{100 * share:.3g} %"),
    },
    head="{machine}, Mops/s",
    after="{origin}.",
)
APART = {
    "Memory of a heap": lambda data: blocks([METADATA(data), SHARES(data)]),
    "Cost of the hardened mode": HARDENED,
}
LANE_ARRAYS = Table(
    each(
        "{workload}, {threads} threads",
        "coalesced/lane_array/work",
        workload=("linear", "quadratic"),
        threads=(12_288, 135_168),
    ),
    each("{floats} floats", floats=(25, 100, 400)),
    ratio("layout=contiguous", "layout=interleaved"),
    "{machine}: work on contiguous arrays ÷ on interleaved ones",
)

# --- The heap's goals, which were set before the measurements: one for each size, or one for all

GOALS = """
malloc, one size, after a reset > heap/single/malloc bytes="16 64 1024 4096" goal="≥ 60,000"
free, one size > heap/single/free bytes="16 64 1024 4096" goal="≥ 120,000"
free, one size, heap never reset > heap/warm/free bytes="16 32" goal="≥ 120,000"
malloc, heap never reset > heap/warm/malloc bytes="64 1024 4096" goal="≥ 60,000"
malloc, new heap > heap/state/fresh bytes="16 4096" goal="≥ 60,000"
churn from 16 B > heap/churn bytes="256 4096" goal="≥ 6,000 / 4,000"
time to fill a freed half again > heap/reuse/fill bytes="64 256 1024 4096" goal="≤ 10 / 3 / 1 / 0.3"
"""


def goal_rows(view):
    for title, chosen in lines(GOALS):
        sizes = " / ".join(x_text("bytes", int(size)) for size in chosen["bytes"].split())
        yield f"{title}: {sizes}", chosen


def of_goal(write):
    """`write` gets the points of all sizes, and the goal; no text without each point."""

    def text(view, selection):
        points = [view.point(selection, {"bytes": size}) for size in selection["bytes"].split()]
        return write(points, selection["goal"]) if all(points) else None

    return text


def verdict(points, goal):
    limits = [float(limit.replace(",", "")) for limit in goal[2:].split(" / ")]
    limits = limits if len(limits) > 1 else limits * len(points)
    sign = 1 if goal[0] == "≥" else -1
    met = [sign * point.median >= sign * limit for point, limit in zip(points, limits)]
    return "yes" if all(met) else "in part" if any(met) else "no"


def measured(points, _):
    return f"{' / '.join(map(point_text, points))} {points[0].unit}"


GOAL_TABLE = Table(
    goal_rows,
    {
        "goal": of_goal(lambda points, goal: f"{goal} {points[0].unit}"),
        "measured": of_goal(measured),
        "met": of_goal(verdict),
    },
    head="{machine}, {origin}",
)

# --- docs/design/opencl.md

VM, GPU = "x86-64-2-core-vm", "nvidia-h200"
DEVICES = {
    "PoCL on two cores": f"machine={VM} device=pthread*",
    "Intel's runtime on two cores": f"machine={VM} device=AMD*",
    "NVIDIA H200": f"machine={GPU} device=NVIDIA*",
}
POCL, _, H200 = DEVICES.values()
# The heap's use, and the goal for the share of the buffer before a failure.
UTILISATION = Table(
    [
        each("{bytes} | 85 %", bytes=(16, 64, 256, 1024, 4096, 65_536, 1 << 20)),
        each("{bytes} | 80 %", bytes=(17, 100, 200, 1000, 3000, 5000, 100_000)),
    ],
    [
        (title, f"opencl/{bench} {chosen}")
        for device, chosen in DEVICES.items()
        for title, bench in ((f"{device}: before a failure", "utilisation"), ("again", "reuse"))
    ],
    value("{:.1f} %", 100),
    "size | goal",
    "*Before a failure*: requested bytes when the first malloc fails, divided by the "
    "buffer's bytes.\n*Again*: three of four allocations are freed; the share of their memory that "
    "is allocated again.\nMedians, {origin}.",
    machines="all",
)
OPENCL_APART = {"Requested share of an OpenCL heap": UTILISATION}
LARGE = "edges=16777216"
WORK = f"""
one work-item, a pair of malloc and free of 4 B > pair size=4
4,608 work-items, 100 pairs of 8 B each > pairs items=4608 variance=none
16,384 work-items, the same > pairs items=16384 variance=none
65,536 work-items, the same > pairs items=65536 variance=none
65,536 work-items, 100 pairs of 4 to 64 B each > pairs items=65536 variance=high
1,048,576 work-items, the same > pairs items=1048576 variance=high
16,384 work-items, 10 allocations of 4 or 8 B each > allocate items=16384
the same by `quarry_malloc_group` > allocate items=16384 allocator="quarry group"
the same from a reserve > allocate items=16384 allocator="quarry reserve"
the same from the ring > allocate items=16384 allocator=ring
65,536 work-items, 10 allocations of 4 or 8 B each > allocate items=65536
64 work-items, 100 spans taken and returned each: page bits > free_list items=64 allocator=bitmap
the same, a queue of spans > free_list items=64 allocator=queue
65,536 edges over 10,000 nodes, 64 work-items > graph items=64 edges=None
the same by the containers, with a reserve > graph items=64 edges=None allocator="quarry reserve"
the same from the ring > graph items=64 edges=None allocator=ring
4,608 work-items, the same edges > graph items=4608 edges=None
the same by the containers, with a reserve > graph items=4608 edges=None allocator="quarry reserve"
the same from the ring > graph items=4608 edges=None allocator=ring
16,777,216 edges over 1,048,576 nodes, 16,384 work-items > graph items=16384 {LARGE}
65,536 work-items, the same edges > graph items=65536 {LARGE}
the same by the containers, with a reserve > graph items=65536 {LARGE} allocator="quarry reserve"
the same from the ring > graph items=65536 {LARGE} allocator=ring
"""
OWN, CUDA = f"opencl/{{bench}} {H200}", f"heap/opencl_work/{{bench}} machine={GPU}"


def quotient(view, selection):
    own, cuda = (at(more, lambda view, s: view.median(s))(view, selection) for more in (OWN, CUDA))
    return own and cuda and value_text(own / cuda)


OPENCL_COSTS = Table(
    WORK,
    {
        "unit": at(OWN, of_point(lambda point: point.unit)),
        "PoCL, two cores": f"opencl/{{bench}} {POCL}",
        "H200": OWN,
        "CUDA heap, H200": CUDA,
        "H200 ÷ CUDA heap": quotient,
    },
    before="{origin}:",
    machines="all",
)
