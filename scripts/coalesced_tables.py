# SPDX-License-Identifier: Apache-2.0
"""Writes docs/plots/coalescing.md: figures 3 and 4 of the coalescing paper, goals, and a test of
the paper's claims. All figures come from the records of coalesced_unit_bench."""

import math

from bench_records import NAMES, WAYS, machines, origin, point_text, points, value_text
from coalesced_figures import COALESCED_FIGURES, GRIDS, MODES

SIZES = (100, 200, 300, 400)
MAIN, OTHERS = ("linear", "quadratic"), ("strided", "gather", "scan")
INTRODUCTION = """# Coalesced allocation: figures

`make plots` writes this page from `bench/results`. The comment at the top of
`bench/coalesced_unit_bench.cpp` says what the program measures. [The
design](../design/coalescing.md#claims) draws the conclusions.

*No barrier* is how the paper measures: threads do not wait for each other between phases. A slow
malloc then staggers the threads, so few of them compete for memory, and their work looks fast. With
a *barrier* before each phase, all threads work at the same time."""


class Cases:
    """Finds the points of one machine by phase, workload, mode, grid, allocator and floats."""

    def __init__(self, records, machine):
        self.records = [
            r
            for r in records
            if r["machine"] == machine and r["bench"].startswith("coalesced/unit/")
        ]
        self.machine = machine
        self.found = {}

    def points(self, phase, workload, mode, grid):
        key = (phase, workload, mode, grid)
        if key not in self.found:
            selection = {"workload": workload, "mode": mode, "grid": grid}
            self.found[key] = points(
                self.records, self.machine, f"coalesced/unit/{phase}", "floats", selection
            )
        return self.found[key]

    def point(self, phase, workload, mode, grid, allocator, floats):
        return self.points(phase, workload, mode, grid).get(allocator, {}).get(floats)

    def value(self, *selection, statistic="mean"):
        point = self.point(*selection)
        return None if point is None else point.values.get(statistic)

    def allocators(self, mode, grid):
        return list(self.points("total", "linear", mode, grid))

    @property
    def platform(self):
        found = {name for mode in MODES for grid in GRIDS for name in self.allocators(mode, grid)}
        return "cuda" if "cuda" in found else "libc"


def full_name(allocator):
    upstream, _, way = allocator.partition("+")
    if way:
        return f"{WAYS[way]} / {NAMES[upstream]}"
    return NAMES[allocator].split(" (")[0]


def table(head, rows):
    yield "| " + " | ".join(head) + " |"
    yield "|---" + "|---:" * (len(head) - 1) + "|"
    for row in rows:
        yield "| " + " | ".join(row) + " |"
    yield ""


def ratio(numerator, denominator):
    """(mean, sd, median) of the quotient of two points, with the deviation of independent means."""
    if (
        numerator is None
        or denominator is None
        or not denominator.values.get("mean")
        or not numerator.values
    ):
        return None
    mean = numerator.values["mean"] / denominator.values["mean"]
    relative = [
        point.values["sd"] / point.values["mean"] if point.values["mean"] else 0
        for point in (numerator, denominator)
    ]
    middle = numerator.median / denominator.median if denominator.median else math.nan
    return mean, mean * math.hypot(*relative), middle


def ratio_text(found):
    if found is None:
        return "–"
    mean, deviation, middle = (f"{value_text(value)}" for value in found)
    return f"{mean} ± {deviation} ({middle})"


def best_in_bold(rows, best=max):
    """Rows of (title, numbers or None) as text, with the best of each column in bold."""
    columns = list(zip(*(numbers for _, numbers in rows)))
    tops = [best((n[0] for n in column if n), default=None) for column in columns]
    for title, numbers in rows:
        texts = [
            f"**{ratio_text(n)}**" if n and n[0] == top else ratio_text(n)
            for n, top in zip(numbers, tops)
        ]
        yield [title, *texts]


def ratios(cases, phase, workloads, sizes, mode, grid, base_allocator, inverse=False, best=max):
    """Tables of the base allocator's time in a phase, divided by that of each allocator, or the
    inverse."""
    for workload in workloads:
        rows = []
        for allocator in cases.allocators(mode, grid):
            if allocator == base_allocator:
                continue
            pairs = [
                [
                    cases.point(phase, workload, mode, grid, name, n)
                    for name in (base_allocator, allocator)
                ]
                for n in sizes
            ]
            numbers = [ratio(*(reversed(pair) if inverse else pair)) for pair in pairs]
            if any(numbers):
                rows.append((full_name(allocator), numbers))
        if rows:
            head = [f"{workload}, {MODES[mode]}", *(f"{n} floats" for n in sizes)]
            yield from table(head, best_in_bold(rows, best))


def microseconds(point):
    if point is None or not point.values:
        return None
    mhz = point.params["mhz"]
    return tuple(point.values[name] / mhz for name in ("mean", "sd", "median"))


def times(cases, phase, mode, grid):
    rows = []
    for allocator in cases.allocators(mode, grid):
        found = [cases.point(phase, "linear", mode, grid, allocator, n) for n in SIZES]
        if any(p and p.values for p in found):
            rows.append((full_name(allocator), [microseconds(p) for p in found]))
    head = [f"{phase} (µs), {MODES[mode]}", *(f"{n} floats" for n in SIZES)]
    yield from table(head, best_in_bold(rows, min))


def goals(cases):
    """The goals of the project for this benchmark, on the paper's grid with barriers."""
    mode, grid = "barrier", "paper"
    names = [a for a in cases.allocators(mode, grid) if a != "bump"]
    quarry_allocators = [a for a in names if a.partition("+")[0] == "quarry"]
    rows = []
    for workload in MAIN:
        for n in SIZES:
            floor = cases.value("total", workload, mode, grid, "bump", n)
            found = {a: cases.value("total", workload, mode, grid, a, n) for a in quarry_allocators}
            found = {a: v for a, v in found.items() if v}
            if floor and found:
                best = min(found, key=found.get)
                text = f"{found[best] / floor:.3f} ({full_name(best)})"
                rows.append([f"best total ÷ floor's, {workload}, {n}", "≤ 1.05", text])
    slow = cases.value("allocate", "linear", mode, grid, cases.platform, 400)
    found = {a: cases.value("allocate", "linear", mode, grid, a, 400) for a in quarry_allocators}
    found = {a: v for a, v in found.items() if v}
    if slow and found:
        best = min(found, key=found.get)
        text = f"{value_text(slow / found[best])} ({full_name(best)})"
        rows.append([f"malloc, 400: {NAMES[cases.platform]} ÷ best", "≥ 1000", text])
    for phase in ("allocate", "free"):
        for upstream in ("quarry", cases.platform):
            pair = [
                cases.value(phase, "linear", mode, grid, f"{upstream}+{way}", 400)
                for way in ("dynamic", "header-warp")
            ]
            if all(pair):
                title = f"{phase}: dynamic ÷ static with header, warp, 400, over {NAMES[upstream]}"
                rows.append([title, "≤ 1.3", f"{pair[0] / pair[1]:.3g}"])
    yield from table(["12 × 1024 threads, barrier", "goal", "measured"], rows)


# The paper's claims: key, text, the paper's figures, and the quantities to compare with them:
# (phase, workload, ways over CUDA's malloc, floats). The table shows speed-ups over CUDA's malloc.
CLAIMS = [
    (
        "A",
        "linear work: a warp's allocations are the best, three times as fast as CUDA's malloc",
        "header 3.46, map 3.18",
        ("work", "linear", ("header-warp", "map-warp"), 400),
    ),
    (
        "B",
        "linear work: a thread block's allocations are slower than CUDA's malloc",
        "header 0.35, map 0.86",
        ("work", "linear", ("header-block", "map-block"), 400),
    ),
    (
        "C",
        "quadratic work: the ways without headers are the best, twice as fast",
        "block 2.18, warp 2.21",
        ("work", "quadratic", ("map-block", "map-warp"), 400),
    ),
    (
        "D",
        "quadratic work: the ways with headers gain nothing",
        "block 0.88, warp 0.99",
        ("work", "quadratic", ("header-block", "header-warp"), 400),
    ),
    (
        "E",
        "malloc: every way is much faster; header and block is the fastest",
        "848, 184, 40, 33",
        ("allocate", "linear", ("header-block", "map-block", "header-warp", "map-warp"), 400),
    ),
    (
        "F",
        "free: header and block is the fastest; map and warp is slower than CUDA's",
        "40, 11, 1.7, 0.5",
        ("free", "linear", ("header-block", "map-block", "header-warp", "map-warp"), 400),
    ),
    (
        "G",
        "malloc: warps are slower than thread blocks, because warps have more superblocks",
        "see E",
        ("allocate", "linear", ("header-block", "map-block", "header-warp", "map-warp"), 100),
    ),
    (
        "H",
        "the map's cost is visible for few floats, and gone at 100",
        "–",
        ("total", "linear", ("map-block", "header-block"), 100),
    ),
    ("I", "other workloads are similar: strided", "–", ("work", "strided", tuple(WAYS), 400)),
    ("J", "the same: gather", "–", ("work", "gather", tuple(WAYS), 400)),
    ("K", "the same: scan", "–", ("work", "scan", tuple(WAYS), 400)),
    (
        "N",
        "4 floats: a warp's work is as fast as with CUDA's malloc, a thread block's is slower",
        "–",
        ("work", "linear", ("header-block", "map-block", "header-warp", "map-warp"), 4),
    ),
    (
        "N",
        "the same, 24 floats",
        "–",
        ("work", "linear", ("header-block", "map-block", "header-warp", "map-warp"), 24),
    ),
]


def claims(cases):
    yield from claim_rows(cases)
    yield ""
    yield from decline(cases)


def claim_rows(cases):
    """Claims A to K and N: the paper's text and figures, and the measurements."""
    base = cases.platform

    def measured(mode, grid, phase, workload, ways, floats):
        slow = cases.value(phase, workload, mode, grid, base, floats)
        texts = []
        for way in ways:
            fast = cases.value(phase, workload, mode, grid, f"{base}+{way}", floats)
            texts.append(f"{way} {value_text(slow / fast)}" if slow and fast else f"{way} –")
        return "<br>".join(texts)

    rows = [
        [key, text, paper, *(measured(mode, "paper", *quantities) for mode in MODES)]
        for key, text, paper, quantities in CLAIMS
    ]
    yield from list(table(["", "the paper's claim", "its speed-up", *MODES.values()], rows))[:-1]


def decline(cases):
    """Claim L: performance falls as arrays grow. Divides the rate at 400 floats by that at 100."""
    rows = []
    for workload, power in (("linear", 1), ("quadratic", 2)):
        for allocator in cases.allocators("barrier", "paper"):
            texts = []
            for mode in MODES:
                time_100, time_400 = (
                    cases.value("work", workload, mode, "paper", allocator, n) for n in (100, 400)
                )
                texts.append(
                    f"{4**power * time_100 / time_400:.3g}" if time_100 and time_400 else "–"
                )
            rows.append([f"{workload}, {full_name(allocator)}", *texts])
    yield from table(
        ["L: performance falls as arrays grow: rate at 400 floats ÷ rate at 100", *MODES.values()],
        rows,
    )


def steps(cases):
    """Claim M: CUDA's malloc rounds up to steps of 20 floats."""
    found = cases.points("allocate", "linear", "barrier", "paper")
    sizes = sorted({n for series in found.values() for n in series})
    rows = [
        [full_name(name), *(point_text(series.get(n)) for n in sizes)]
        for name, series in found.items()
        if len(series) > len(SIZES)
    ]
    if rows:
        head = ["M: malloc by floats (median, cycles)", *(str(n) for n in sizes)]
        yield from table(head, rows)


def few_floats(cases):
    """Claim N: fewer than 25 floats, if there are records."""
    for mode in MODES:
        found = cases.points("work", "linear", mode, "paper").get(cases.platform, {})
        sizes = [n for n in found if n < 25]
        if sizes:
            yield from ["N: speed-up of the work for few floats.", ""]
            yield from ratios(cases, "work", ("linear",), sizes, mode, "paper", cases.platform)


def machine_section(records, machine):
    cases = Cases(records, machine)
    if not cases.records:
        return
    everything = [
        point
        for mode in MODES
        for grid in GRIDS
        for series in cases.points("total", "linear", mode, grid).values()
        for point in series.values()
    ]
    yield from [f"## {machine}", "", f"{origin(everything)}. Mean ± standard deviation over"]
    yield from ["runs, the median in brackets; the best of a column in bold.", ""]
    yield from ["### Goals", "", *goals(cases)]
    yield from ["### The paper's claims", ""]
    platform = NAMES[cases.platform]
    text = f"Speed-ups over {platform}. All ways allocate from {platform}, in {GRIDS['paper']}."
    yield from [text, ""]
    yield from [*claims(cases), *steps(cases), *few_floats(cases)]
    for figure in COALESCED_FIGURES:
        if any(panel.points(records, machine) for panel in figure.panels):
            stem = f"{figure.name}.{machine}"
            yield from [f"### {figure.title}", ""]
            yield from [f"[![{figure.title}]({stem}.png)]({stem}.svg)", ""]
    for grid, threads in GRIDS.items():
        yield from [f"### Speed-up of the work over {NAMES[cases.platform]}, {threads}", ""]
        for mode in MODES:
            yield from ratios(cases, "work", MAIN, SIZES, mode, grid, cases.platform)
            yield from ratios(cases, "work", OTHERS, (100, 400), mode, grid, cases.platform)
        yield from [f"### Time of malloc and free, {threads}", ""]
        for phase in ("allocate", "free"):
            for mode in MODES:
                yield from times(cases, phase, mode, grid)
        yield from [f"### Time of all four phases ÷ the floor's, {threads}", ""]
        for mode in MODES:
            yield from ratios(cases, "total", MAIN, SIZES, mode, grid, "bump", True, min)


def page(records):
    sections = [list(machine_section(records, machine)) for machine in machines(records)]
    lines = [line for section in sections for line in section]
    if not lines:
        lines = ["No figures yet: `make bench` measures this machine."]
    return "\n".join([INTRODUCTION, "", *lines]).rstrip() + "\n"
