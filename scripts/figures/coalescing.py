# SPDX-License-Identifier: Apache-2.0
"""Coalesced allocation: docs/plots/coalescing.md and the claims of docs/design/coalescing.md.

The page has figures 3 and 4 of the coalescing paper, goals, and a test of the paper's claims. All
figures come from the records of coalesced_unit_bench.
"""

import math

from .names import NAMES, WAYS
from .plots import COALESCED_FIGURES, picture
from .records import origin, value_text
from .table import DASH, Table, View, each, found, markdown, named, of_point, ratio, value

SIZES = (100, 200, 300, 400)
MODES = {"none": "no barrier", "barrier": "barrier"}
FULL_NAMES = {name: NAMES[name].split(" (")[0] for name in ("quarry", "cuda", "bump")} | {
    f"{upstream}+{way}": f"{title} / {NAMES[upstream]}"
    for upstream in ("quarry", "cuda")
    for way, title in WAYS.items()
}


def case(phase, workload="linear", grid="paper", **more):
    return {"bench": f"coalesced/unit/{phase}", "workload": workload, "grid": grid} | more


def rows(phase, title="{}", **more):
    """A row for each allocator."""
    names, chosen = FULL_NAMES.items(), case(phase, **more)
    return [(title.format(text), chosen | {"allocator": name}) for name, text in names]


def mean_ratio(above, below, form=None):
    return ratio(above, below, form, "mean")


def by_floats(phase, mode, cell, best, workload="linear", head="{workload}", sizes=SIZES):
    """A table of allocators by floats."""
    return Table(
        rows(phase, workload=workload, mode=mode),
        each("{floats} floats", floats=sizes),
        cell,
        f"{head.format(workload=workload)}, {MODES[mode]}",
        best=best,
    )


def mean_of(view, phase, name, floats=400, workload="linear", mode="barrier"):
    point = view.point(case(phase, workload, mode=mode), {"allocator": name, "floats": floats})
    return point and point.values.get("mean")


def goals(data, machine):
    """The goals of the project for this benchmark, on the paper's grid with barriers."""
    view, lines = View(data, machine), []

    def mean(*case):
        return mean_of(view, *case) or math.nan

    def best_of(phase, floats=400, workload="linear"):
        names = [name for name in FULL_NAMES if name.startswith("quarry")]
        found = [(mean(phase, name, floats, workload), FULL_NAMES[name]) for name in names]
        return min((pair for pair in found if pair[0] > 0), default=(math.nan, DASH))

    for workload in ("linear", "quadratic"):
        for n in SIZES:
            time, best = best_of("total", n, workload)
            text = f"{time / mean('total', 'bump', n, workload):.3f} ({best})"
            lines.append([f"best total ÷ floor's, {workload}, {n}", "≤ 1.05", text])
    time, best = best_of("allocate")
    text = f"{value_text(mean('allocate', 'cuda') / time)} ({best})"
    lines.append(["malloc, 400: CUDA's malloc ÷ best", "≥ 1000", text])
    for phases in (("allocate",), ("free",), ("allocate", "free")):
        for upstream in ("quarry", "cuda"):
            dynamic, static = (
                sum(mean(phase, f"{upstream}+{way}") for phase in phases)
                for way in ("dynamic", "header-warp")
            )
            title = f"{' and '.join(phases)}: dynamic ÷ static with header, warp, 400, over "
            lines.append([title + NAMES[upstream], "≤ 1.3", f"{dynamic / static:.3g}"])
    measured = [line for line in lines if "nan" not in line[2]]
    return markdown(["12 × 1024 threads, barrier", "goal", "measured"], measured)


def decline(view, selection):
    """The rate at 400 floats divided by that at 100. The operations differ by a factor."""
    operations = {"linear": 4, "quadratic": 16}[selection["workload"]]
    write = lambda quotient: f"{operations * quotient:.3g}"  # noqa: E731
    return mean_ratio("floats=100", "floats=400", write)(view, selection)


CLAIM_TABLES = [
    Table(
        [rows("work", title=w + ", {}", workload=w) for w in ("linear", "quadratic")],
        named("mode", MODES),
        decline,
        "L: performance falls as arrays grow: rate at 400 floats ÷ rate at 100",
    ),
    Table(
        rows("allocate", mode="barrier"),
        found("{floats}", case("allocate", mode="barrier"), "floats", cells=""),
        value(),
        "M: malloc by floats (median, cycles)",
    ),
    Table(
        {title: case("total", mode=mode, floats=100) for mode, title in MODES.items()},
        """
        12 thread blocks > grid=paper
        24 > grid=24
        48 > grid=48
        96 > grid=96
        one a multiprocessor > grid=full
        """,
        mean_ratio("allocator=cuda", "allocator=bump"),
        "O: CUDA's malloc ÷ floor, all four phases, 100 floats",
    ),
]


def microseconds(point):
    return " ± ".join(value_text(point.values[n] / point.params["mhz"]) for n in ("mean", "sd"))


SPEED_UPS = [
    by_floats("work", mode, mean_ratio("allocator=cuda", ""), max, workload, sizes=sizes)
    for mode in MODES
    for sizes, workloads in (
        (SIZES, ("linear", "quadratic")),
        ((100, 400), ("strided", "gather", "scan")),
    )
    for workload in workloads
]
TIMES = [
    by_floats(phase, mode, of_point(microseconds), min, head=f"{phase} (µs)")
    for phase in ("allocate", "free")
    for mode in MODES
]
TOTALS = [
    by_floats("total", mode, mean_ratio("", "allocator=bump"), min, workload)
    for mode in MODES
    for workload in ("linear", "quadratic")
]
INTRODUCTION = """# Coalesced allocation: figures

`make plots` writes this page from `bench/results`. The comment at the top of
`bench/coalesced_unit_bench.cpp` says what the program measures. [The
design](../design/coalescing.md#claims) draws the conclusions.

*No barrier* is how the paper measures: threads do not wait for each other between phases. A slow
malloc then staggers the threads, so few of them compete for memory, and their work looks fast. With
a *barrier* before each phase, all threads work at the same time.
"""


def page(data):
    """docs/plots/coalescing.md, of the first machine with records."""
    totals = [data.points("coalesced/unit/total allocator=*", m, ["grid"]) for m in data.machines()]
    machine, points = next(((m, p) for m, p in zip(data.machines(), totals) if p), (None, {}))
    if machine is None:
        return INTRODUCTION + "\nNot measured yet.\n"
    shown = lambda tables: [  # noqa: E731
        line for table in tables for line in ["", *table.lines_of(data, machine)]
    ]
    lines = [
        *(f"## {machine}", "", f"{origin(points.values())}. Means over runs, times ± the"),
        *("standard deviation; the best of a column in bold.", "", "### Goals", ""),
        *(*goals(data, machine), "", "### The paper's claims", ""),
        "[The design](../design/coalescing.md#claims) has the other claims, with verdicts.",
        "All ways allocate from CUDA's malloc, in 12 × 1024 threads.",
        *shown(CLAIM_TABLES),
        "",
    ]
    for figure in COALESCED_FIGURES:
        lines += picture(figure.name, figure.title, machine)
    lines += ["### Speed-up of the work over CUDA's malloc, 12 × 1024 threads", *shown(SPEED_UPS)]
    lines += ["", "### Time of malloc and free, 12 × 1024 threads", *shown(TIMES)]
    lines += ["", "### Time of all four phases ÷ the floor's, 12 × 1024 threads", *shown(TOTALS)]
    return "\n".join([INTRODUCTION, *lines, ""])


# --- docs/design/coalescing.md: the paper's claims, and whether the measurements meet them

BLOCKS, WARPS = ("header-block", "map-block"), ("header-warp", "map-warp")
HEADERS, MAPS = ("header-block", "header-warp"), ("map-block", "map-warp")
FOUR, ALL = BLOCKS + WARPS, tuple(WAYS)


def least(found, ways=None):
    return min(found[way] for way in ways or found)


def most(found, ways=None):
    return max(found[way] for way in ways or found)


def is_fastest(found):
    return found["header-block"] == most(found)


def has_faster_warps(found):
    return least(found, WARPS) >= 1 > most(found, BLOCKS)


# Key, claim, and the paper's speed-ups.
CLAIMS = """
A | linear work: a warp's allocations are at least 3 times as fast | header 3.46, map 3.18
B | linear work: a thread block's allocations are slower | header 0.35, map 0.86
C | quadratic work: those without headers are at least twice as fast | block 2.18, warp 2.21
D | quadratic work: those with headers are at most a tenth faster | block 0.88, warp 0.99
E | malloc: header and block is the fastest | 848, 184, 40, 33
F | free: header and block is the fastest | 40, 11, 1.7, 0.5
F | free: map and warp is slower | 0.5
G | malloc: each way of a thread block is faster than each of a warp | see E
H | all phases, 100 floats: the map costs a thread block 5 % at most | –
I | strided work: all ways are faster | –
J | gather work: all ways are faster | –
K | scan work: all ways are faster | –
N | linear work, 4 floats: a warp's are as fast, a thread block's slower | –
N | linear work, 24 floats: a warp's are as fast, a thread block's slower | –
"""
# For each claim: phase, floats, workload, and the ways whose speed-ups meet the condition.
CONDITIONS = [
    ("work", 400, "linear", WARPS, lambda found: least(found) >= 3),
    ("work", 400, "linear", BLOCKS, lambda found: most(found) < 1),
    ("work", 400, "quadratic", MAPS, lambda found: least(found) >= 2),
    ("work", 400, "quadratic", HEADERS, lambda found: most(found) <= 1.1),
    ("allocate", 400, "linear", FOUR, is_fastest),
    ("free", 400, "linear", FOUR, is_fastest),
    ("free", 400, "linear", ("map-warp",), lambda found: most(found) < 1),
    ("allocate", 100, "linear", FOUR, lambda found: least(found, BLOCKS) > most(found, WARPS)),
    ("total", 100, "linear", BLOCKS[::-1], lambda f: f["map-block"] * 1.05 >= f["header-block"]),
    *(("work", 400, w, ALL, lambda f: least(f) > 1) for w in ("strided", "gather", "scan")),
    *(("work", floats, "linear", FOUR, has_faster_warps) for floats in (4, 24)),
]
CLAIM_ROWS = [
    (title, {"case": case})
    for title, case in zip(CLAIMS.split("\n")[1:-1], CONDITIONS, strict=True)
]


def verdict(view, selection):
    """The speed-ups over CUDA's malloc, with `yes` or `no`: whether they meet the condition."""
    phase, *case, ways, holds = selection["case"]
    names = ("cuda", *(f"cuda+{way}" for way in ways))
    slow, *fast = (mean_of(view, phase, name, *case, selection["mode"]) for name in names)
    # Rounded as in the table, so that a reader can check the verdict.
    pairs = ((way, time) for way, time in zip(ways, fast) if slow and time)
    found = {way: float(f"{slow / time:.3g}") for way, time in pairs}
    if not found or len(found) < len(ways) <= 4:
        return "not measured"
    text = ", ".join(f"{way} {value_text(ratio)}" for way, ratio in found.items())
    if len(ways) > 4:
        text = f"{value_text(least(found))} to {value_text(most(found))}"
    return f"{'yes' if holds(found) else 'no'}: {text}"


CLAIM_TABLE = Table(
    CLAIM_ROWS,
    named("mode", MODES),
    verdict,
    " | the paper's claim, against CUDA's malloc | its speed-up",
    "Measured on {machine}, {origin}, 12 × 1024 threads. A figure is the\nspeed-up over CUDA's "
    "malloc, a quotient of mean times. *Yes* or *no*: whether\nthe figures meet the condition.",
)
