# SPDX-License-Identifier: Apache-2.0
"""Coalesced allocation: docs/plots/coalescing.md and the tables of docs/design/coalescing.md.

The page has figures 3 and 4 of the coalescing paper, goals, and a test of the paper's claims. All
figures come from the records of coalesced_unit_bench.
"""

import math

from .claims import CLAIMS, MODES
from .names import NAMES, WAYS
from .plots import COALESCED_FIGURES, GRIDS, picture
from .records import flat, origin, value_text
from .table import Number, Table, View, at, markdown, median_or_error, missing, ratio, value

SIZES = (100, 200, 300, 400)
MAIN, OTHERS = ("linear", "quadratic"), ("strided", "gather", "scan")
INTRODUCTION = """# Coalesced allocation: figures

`make plots` writes this page from `bench/results`. The comment at the top of
`bench/coalesced_unit_bench.cpp` says what the program measures. [The
design](../design/coalescing.md#claims) draws the conclusions.

*No barrier* is how the paper measures: threads do not wait for each other between phases. A slow
malloc then staggers the threads, so few of them compete for memory, and their work looks fast. With
a *barrier* before each phase, all threads work at the same time.
"""


BARRIER = {"mode": "barrier"}
DYNAMIC, STATIC = {"allocator": "quarry+dynamic"}, {"allocator": "quarry+header-warp"}


def case(phase, **selection):
    return {"bench": f"coalesced/unit/{phase}", "workload": "linear", "grid": "paper"} | selection


def columns_of(sizes):
    return {f"{n} floats": {"floats": n} for n in sizes}


class Cases(View):
    """The records of coalesced_unit_bench on one machine."""

    def __init__(self, data, machine):
        super().__init__(data, machine)
        totals = self.points("coalesced/unit/total", None, {"workload": "linear"})
        self.platform = "cuda" if "cuda" in totals else "libc"

    def value(self, phase, workload, mode, grid, allocator, floats):
        """The mean of a measurement."""
        selection = {"workload": workload, "mode": mode, "grid": grid, "floats": floats}
        point = self.point(case(phase, allocator=allocator, **selection))
        return point and point.values.get("mean")

    def series(self, phase, **selection):
        """{allocator: {floats: Point}}"""
        selection = case(phase, **selection)
        return self.points(selection.pop("bench"), "floats", selection)

    def rows(self, mode, grid, selection):
        """A row for each allocator: its name, and the selection."""
        names = self.series("total", mode=mode, grid=grid)
        more = selection | {"mode": mode, "grid": grid}
        return {full_name(name): more | {"allocator": name} for name in names}

    def table(self, head, rows, columns, cell, **more):
        lines = Table(rows, columns, cell, head, **more).lines_of(self.data, self.machine)
        return [*lines, ""] if lines else []


def full_name(allocator):
    upstream, _, way = allocator.partition("+")
    return f"{WAYS[way]} / {NAMES[upstream]}" if way else NAMES[allocator].split(" (")[0]


def statistics_text(mean, deviation, middle):
    return Number("{} ± {} ({})".format(*map(value_text, (mean, deviation, middle))), mean)


def quotient(base, inverse):
    """Writes the base allocator's time divided by the cell's, or the inverse. The deviation is that
    of independent means."""

    def text(view, selection):
        if selection["allocator"] == base:
            return None
        pair = [view.point(selection | more) for more in ({"allocator": base}, {})]
        above, below = reversed(pair) if inverse else pair
        if not above or not below or not below.values.get("mean") or not above.values:
            return None
        mean = above.values["mean"] / below.values["mean"]
        relative = (
            point.values["sd"] / point.values["mean"] if point.values["mean"] else 0
            for point in (above, below)
        )
        middle = above.median / below.median if below.median else math.nan
        return statistics_text(mean, mean * math.hypot(*relative), middle)

    return text


def quotients(cases, phase, workload, sizes, mode, grid, base, inverse=False):
    rows = cases.rows(mode, grid, case(phase, workload=workload))
    head, best = f"{workload}, {MODES[mode]}", min if inverse else max
    return cases.table(head, rows, columns_of(sizes), quotient(base, inverse), best=best)


def microseconds(view, selection):
    point = view.point(selection)
    if point is None or not point.values:
        return None
    return statistics_text(
        *(point.values[s] / point.params["mhz"] for s in ("mean", "sd", "median"))
    )


def times(cases, phase, mode, grid):
    rows, head = cases.rows(mode, grid, case(phase)), f"{phase} (µs), {MODES[mode]}"
    return cases.table(head, rows, columns_of(SIZES), microseconds, best=min)


def goals(cases):
    """The goals of the project for this benchmark, on the paper's grid with barriers."""
    names = [name for name in cases.series("total", **BARRIER) if name.split("+")[0] == "quarry"]

    def best_of(phase, workload, floats):
        found = {n: cases.value(phase, workload, "barrier", "paper", n, floats) for n in names}
        found = {name: time for name, time in found.items() if time}
        best = min(found, key=found.get, default=None)
        return best, found.get(best)

    rows = []
    for workload in MAIN:
        for n in SIZES:
            floor = cases.value("total", workload, "barrier", "paper", "bump", n)
            best, time = best_of("total", workload, n)
            if floor and best:
                text = f"{time / floor:.3f} ({full_name(best)})"
                rows.append([f"best total ÷ floor's, {workload}, {n}", "≤ 1.05", text])
    slow = cases.value("allocate", "linear", "barrier", "paper", cases.platform, 400)
    best, time = best_of("allocate", "linear", 400)
    if slow and best:
        text = f"{value_text(slow / time)} ({full_name(best)})"
        rows.append([f"malloc, 400: {NAMES[cases.platform]} ÷ best", "≥ 1000", text])
    for phase in ("allocate", "free"):
        for upstream in ("quarry", cases.platform):
            pair = [
                cases.value(phase, "linear", "barrier", "paper", f"{upstream}+{way}", 400)
                for way in ("dynamic", "header-warp")
            ]
            if all(pair):
                title = f"{phase}: dynamic ÷ static with header, warp, 400, over {NAMES[upstream]}"
                rows.append([title, "≤ 1.3", f"{pair[0] / pair[1]:.3g}"])
    return [*markdown(["12 × 1024 threads, barrier", "goal", "measured"], rows), ""]


def both_phases(view, selection):
    """The quotient of the times of malloc and free together."""
    sums = [
        [view.point(case(phase) | selection | way) for phase in ("allocate", "free")]
        for way in (DYNAMIC, STATIC)
    ]
    if not all(sums[0] + sums[1]):
        return None
    above, below = (sum(point.median for point in points) for points in sums)
    return value_text(above / below)


def dynamic_costs(cases):
    """What choosing the superblock at run time costs, beside a choice by the compiler."""
    columns = []
    for title, phase in (("malloc", "allocate"), ("free", "free")):
        columns.append((f"{title}: dynamic", case(phase) | DYNAMIC))
        columns.append((f"{title}: static", case(phase) | STATIC))
        columns.append((f"{title}: ÷", at(ratio(DYNAMIC, STATIC), **case(phase))))
    rows = {title: {"mode": mode, "floats": 400} for mode, title in MODES.items()}
    head = "400 floats over Quarry, cycles (median)"
    return cases.table(head, rows, [*columns, ("both: ÷", both_phases)], value())


def mean_quotient(view, selection):
    """Of the allocators `pair`, by their mean times."""
    selection = dict(selection)
    above, below = ({"allocator": name} for name in selection.pop("pair"))
    return ratio(above, below, statistic="mean")(view, selection)


def map_costs(cases):
    """Claim H: the time with the map, divided by the time with headers, over CUDA's malloc."""
    rows = {}
    for mode, mode_name in MODES.items():
        for group, title in (("warp", "warps"), ("block", "thread blocks")):
            pair = [f"{cases.platform}+{way}-{group}" for way in ("map", "header")]
            rows[f"{title}, {mode_name}"] = case("total", mode=mode, pair=pair)
    head, sizes = "H: all four phases, map ÷ header", (4, 24, 100, 400)
    return cases.table(head, rows, columns_of(sizes), mean_quotient, keep=True)


def other_grids(cases):
    """Claim O: other numbers of thread blocks."""
    grids = {"12 thread blocks": "paper"} | {n: n for n in ("24", "48", "96")}
    grids["one a multiprocessor"] = "full"
    more = {"pair": (cases.platform, "bump"), "floats": 100}
    rows = {title: case("total", mode=mode, **more) for mode, title in MODES.items()}
    columns = {title: {"grid": grid} for title, grid in grids.items()}
    head = f"O: {NAMES[cases.platform]} ÷ floor, all four phases, 100 floats"
    return cases.table(head, rows, columns, mean_quotient, keep=True)


def decline(cases):
    """Claim L: performance falls as arrays grow. Divides the rate at 400 floats by that at 100."""
    operations = {"linear": 4, "quadratic": 16}  # at 400 floats, divided by those at 100

    def text(view, selection):
        def write(quotient):
            return f"{operations[selection['workload']] * quotient:.3g}"

        return ratio({"floats": 100}, {"floats": 400}, write, "mean")(view, selection)

    rows = {
        f"{workload}, {full_name(name)}": case("work", workload=workload, allocator=name)
        for workload in operations
        for name in cases.series("total", **BARRIER)
    }
    columns = {title: {"mode": mode} for mode, title in MODES.items()}
    head = "L: performance falls as arrays grow: rate at 400 floats ÷ rate at 100"
    return cases.table(head, rows, columns, text, keep=True)


def steps(cases):
    """Claim M: CUDA's malloc rounds up to steps of 20 floats."""
    found = cases.series("allocate", **BARRIER)
    columns = {str(n): {"floats": n} for n in sorted(set().union(*found.values()))}
    rows = {
        full_name(name): case("allocate", allocator=name, **BARRIER)
        for name, series in found.items()
        if len(series) > len(SIZES)
    }
    return cases.table("M: malloc by floats (median, cycles)", rows, columns, median_or_error)


def few_floats(cases):
    """Claim N: fewer than 25 floats, if there are records."""
    for mode in MODES:
        sizes = [n for n in cases.series("work", mode=mode).get(cases.platform, {}) if n < 25]
        if sizes:
            yield from ["N: speed-up of the work for few floats.", ""]
            yield from quotients(cases, "work", "linear", sizes, mode, "paper", cases.platform)


def machine_section(cases):
    platform = NAMES[cases.platform]
    everything = [
        point
        for mode in MODES
        for grid in GRIDS
        for point in flat(cases.series("total", mode=mode, grid=grid))
    ]
    yield from [f"## {cases.machine}", "", f"{origin(everything)}. Mean ± standard deviation over"]
    yield from ["runs, the median in brackets; the best of a column in bold.", ""]
    yield from ["### Goals", "", *goals(cases), *dynamic_costs(cases)]
    yield from ["### The paper's claims", ""]
    yield "[The design](../design/coalescing.md#claims) has claims A to K and N, with verdicts."
    yield f"All ways allocate from {platform}, in {GRIDS['paper']}."
    yield ""
    yield from [*map_costs(cases), *decline(cases), *steps(cases), *few_floats(cases)]
    yield from other_grids(cases)
    for figure in COALESCED_FIGURES:
        if any(panel.points(cases.data, cases.machine) for panel in figure.panels):
            yield from picture(figure.name, figure.title, cases.machine)
    for grid, threads in GRIDS.items():
        yield from [f"### Speed-up of the work over {platform}, {threads}", ""]
        for mode in MODES:
            for workload in MAIN + OTHERS:
                sizes = SIZES if workload in MAIN else (100, 400)
                yield from quotients(cases, "work", workload, sizes, mode, grid, cases.platform)
        yield from [f"### Time of malloc and free, {threads}", ""]
        for phase in ("allocate", "free"):
            for mode in MODES:
                yield from times(cases, phase, mode, grid)
        yield from [f"### Time of all four phases ÷ the floor's, {threads}", ""]
        for mode in MODES:
            for workload in MAIN:
                yield from quotients(cases, "total", workload, SIZES, mode, grid, "bump", True)


def all_cases(data):
    machines = [m for m in data.machines() if (m, "coalesced/unit/total") in data.by_bench]
    return [Cases(data, machine) for machine in machines]


def page(data):
    lines = [line for cases in all_cases(data) for line in machine_section(cases)]
    lines = lines or ["No figures yet: `make bench` measures this machine."]
    return "\n".join([INTRODUCTION, *lines]).rstrip() + "\n"


# --- docs/design/coalescing.md


def verdicts(data):
    """Of the first machine."""
    cases = next(iter(all_cases(data)), None)
    if cases is None:
        return missing("`coalesced_unit_bench`")
    everything = flat(cases.series("total", mode="none"))
    head = ["", "the paper's claim, against CUDA's malloc", "its speed-up", *MODES.values()]
    rows = [
        [claim.key, claim.text, claim.paper, *(claim.verdict(cases, mode) for mode in MODES)]
        for claim in CLAIMS
    ]
    return [
        f"Measured on {cases.machine}, {origin(everything)}, 12 × 1024 threads. A figure is the",
        f"speed-up over {NAMES[cases.platform]}, a quotient of mean times. *Yes* or *no*: whether",
        "the figures meet the condition.",
        "",
        *markdown(head, rows),
    ]


TABLES = {"claims": verdicts}
