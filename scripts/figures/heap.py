# SPDX-License-Identifier: Apache-2.0
"""Tables of the heap on GPUs and CPUs: docs/design/heap.md and lane_arrays.md."""

from .records import flat, origin, point_text, x_text
from .table import Table, median_or_error, ratio, value

MIB = 1 << 20
METADATA = "heap/init/metadata"


def percent(number):
    return f"{100 * number:.2f} %"


MEMORY = Table(
    missing="`heap_init_bench` (metadata)",
    any_machine=True,
    before="Metadata, as a share of the heap, {origin}:",
    head="heap",
    rows=lambda view: [
        (x_text("bytes", size), {"machine": machine, "heap_bytes": size})
        for machine in view.data.machines()
        for size in view.data.points(machine, METADATA, "heap_bytes").get("quarry", {})
    ],
    columns={
        "metadata": {"bench": METADATA},
        "device memory taken beyond the heap's size": {"bench": "heap/init/device_memory"},
        "machine": lambda view, selection: selection["machine"],
    },
    cell=value(percent),
)


def share(view, selection):
    """The worst of several shares of a full heap, and the heap's size."""
    for bench in ("heap/waste/share", "heap/utilisation/share"):
        point = view.point(selection | {"bench": bench})
        if point:
            return f"{point_text(point)} ({x_text('bytes', point.params['heap_bytes'])})"
    return None


def computed_share(view, selection):
    """What the size classes say, on the first machine that has it."""
    for machine in view.data.machines():
        bench = "heap/waste/by_size_classes"
        point = view.data.point(machine, bench, **selection)
        if point:
            return point_text(point)
    return None


def share_series(view):
    """{machine: {size: Point}} of the machines with shares."""
    found = {}
    for machine in view.data.machines():
        series = {}
        for bench in ("heap/utilisation/share", "heap/waste/share"):
            series |= view.data.points(machine, bench, "bytes").get("quarry", {})
        if series:
            found[machine] = series
    return found


def size_text(size):
    """A size as x_text formats it, and `8 MiB + 1`."""
    return f"{x_text('bytes', size - 1)} + 1" if size % MIB == 1 else x_text("bytes", size)


SHARES = Table(
    missing="`heap_utilisation_bench`",
    any_machine=True,
    before="Requested bytes in a full heap, divided by the heap's bytes, for sizes of a class and for\n"
    "the sizes that fit worst, {origin}:",
    head="size",
    words=lambda view: {"origin": origin(flat(share_series(view)))},
    rows=lambda view: {
        size_text(size): {"bytes": size}
        for size in sorted(set().union(*share_series(view).values()))
    },
    columns=lambda view: {"by the size classes": computed_share}
    | {f"measured, {machine} (heap)": {"machine": machine} for machine in share_series(view)},
    cell=share,
)


def memory(data):
    return [*MEMORY(data), "", *SHARES(data)]


HARDENED = [  # title, benchmark, sizes
    ("malloc,", "heap/single/malloc", (16, 64, 256, 4096)),
    ("free,", "heap/single/free", (16, 64, 256, 4096)),
    ("malloc, mixed sizes from 16 B up to", "heap/mixed/malloc", (256, 4096)),
    ("free, mixed sizes from 16 B up to", "heap/mixed/free", (256, 4096)),
    ("churn from 16 B up to", "heap/churn", (256, 1024, 4096)),
]


def hardened_rows(view):
    return {
        f"{title} {x_text('bytes', size)}": {"bench": bench, "bytes": size}
        for title, bench, sizes in HARDENED
        for size in view.points(bench, "bytes").get("quarry-hardened", {})
        if size in sizes
    }


def hardened_origin(view):
    return {"origin": origin(p for p in view.shown if p.params["allocator"] == "quarry-hardened")}


def goal(title, bench, sizes, *goals):
    sizes_text = " / ".join(x_text("bytes", size) for size in sizes)
    return f"{title}: {sizes_text}", {"bench": bench, "sizes": sizes, "goals": goals}


# The heap's goals, which were set before the measurements.
GOALS = [
    goal("malloc, one size, after a reset", "heap/single/malloc", (16, 64, 1024, 4096), 60_000),
    goal("free, one size", "heap/single/free", (16, 64, 1024, 4096), 120_000),
    goal("free, one size, heap never reset", "heap/warm/free", (16, 32), 120_000),
    goal("malloc, heap never reset", "heap/warm/malloc", (64, 1024, 4096), 60_000),
    goal("malloc, new heap", "heap/state/fresh", (16, 4096), 60_000),
    goal("churn from 16 B", "heap/churn", (256, 4096), 6000, 4000),
    goal(
        "time to fill a freed half again", "heap/reuse/fill", (64, 256, 1024, 4096), 10, 3, 1, 0.3
    ),
]


def goal_writer(write):
    """`write` gets the points of all sizes, and the goals; no text without each point."""

    def text(view, row):
        points = [view.point({"bench": row["bench"], "bytes": size}) for size in row["sizes"]]
        return write(points, row["goals"]) if all(points) else None

    return text


def is_time(points):
    return points[0].unit == "ms"


def goal_text(points, goals):
    limits = " / ".join(f"{limit:,}" for limit in goals)
    return f"{'≤' if is_time(points) else '≥'} {limits} {points[0].unit}"


def verdict(points, goals):
    limits = goals if len(goals) > 1 else goals * len(points)
    met = [
        point.median <= limit if is_time(points) else point.median >= limit
        for point, limit in zip(points, limits)
    ]
    return "yes" if all(met) else "in part" if any(met) else "no"


TABLES = {
    "memory": memory,
    "hardened": Table(
        missing="`heap_single_hardened_bench` and `heap_churn_hardened_bench`",
        each=True,
        head="{machine}, Mops/s",
        after="Hardened: {origin}.",
        words=hardened_origin,
        rows=hardened_rows,
        columns={
            "as built by default": {"allocator": "quarry"},
            "hardened": {"allocator": "quarry-hardened"},
            "left": ratio(
                {"allocator": "quarry-hardened"},
                {"allocator": "quarry"},
                lambda share: f"{100 * share:.3g} %",
                "median",
            ),
        },
        cell=median_or_error,
    ),
    "goals": Table(
        missing="`heap_single_bench`",
        head="{machine}, {origin}",
        rows=dict(GOALS),
        columns={
            "goal": goal_writer(goal_text),
            "measured": goal_writer(
                lambda points, _: f"{' / '.join(map(point_text, points))} {points[0].unit}"
            ),
            "met": goal_writer(verdict),
        },
        cell=median_or_error,
    ),
}
LANE_ARRAYS = Table(
    missing="`coalesced_lane_array_bench`",
    head="{machine}: work on contiguous arrays ÷ on interleaved ones",
    rows={
        f"{workload}, {threads:,} threads": {
            "bench": "coalesced/lane_array/work",
            "workload": workload,
            "threads": threads,
        }
        for workload in ("linear", "quadratic")
        for threads in (12_288, 135_168)
    },
    columns={f"{floats} floats": {"floats": floats} for floats in (25, 100, 400)},
    cell=ratio({"layout": "contiguous"}, {"layout": "interleaved"}),
)
