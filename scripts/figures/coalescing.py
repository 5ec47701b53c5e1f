# SPDX-License-Identifier: Apache-2.0
"""Coalesced allocation: docs/plots/coalescing.md and the tables of docs/design/coalescing.md.

The page has figures 3 and 4 of the coalescing paper, goals, and a test of the paper's claims. All
figures come from the records of coalesced_unit_bench.
"""

import math

from .claims import CLAIMS, MODES
from .names import NAMES, WAYS
from .plots import COALESCED_FIGURES, GRIDS, picture
from .records import flat, origin, point_text, value_text
from .table import DASH, markdown, missing

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


class Cases:
    """Finds the points of one machine by phase, workload, mode, grid, allocator and floats."""

    def __init__(self, data, machine):
        self.data, self.machine, self.found = data, machine, {}
        found = {name for mode in MODES for grid in GRIDS for name in self.allocators(mode, grid)}
        self.platform = "cuda" if "cuda" in found else "libc"
        self.exists = any(
            bench.startswith("coalesced/unit/") for host, bench in data.by_bench if host == machine
        )

    def points(self, phase, *case):
        if (phase, *case) not in self.found:
            selection = dict(zip(("workload", "mode", "grid"), case))
            self.found[phase, *case] = self.data.points(
                self.machine, f"coalesced/unit/{phase}", "floats", selection
            )
        return self.found[phase, *case]

    def point(self, phase, workload, mode, grid, allocator, floats):
        return self.points(phase, workload, mode, grid).get(allocator, {}).get(floats)

    def value(self, *selection, statistic="mean"):
        point = self.point(*selection)
        return None if point is None else point.values.get(statistic)

    def ratio_text(self, *pair, statistic="mean"):
        """The quotient of two selections as text."""
        values = [self.value(*selection, statistic=statistic) for selection in pair]
        return value_text(values[0] / values[1]) if all(values) else DASH

    def allocators(self, mode, grid):
        return list(self.points("total", "linear", mode, grid))


def full_name(allocator):
    upstream, _, way = allocator.partition("+")
    return f"{WAYS[way]} / {NAMES[upstream]}" if way else NAMES[allocator].split(" (")[0]


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
    return "{} ± {} ({})".format(*map(value_text, found)) if found else DASH


def bold_table(title, sizes, rows, best):
    """Rows of (title, numbers or None), with the best of each column in bold."""
    tops = [
        best((numbers[0] for numbers in column if numbers), default=None)
        for column in zip(*(numbers for _, numbers in rows))
    ]
    texts = [
        [name]
        + [
            f"**{ratio_text(n)}**" if n and n[0] == top else ratio_text(n)
            for n, top in zip(numbers, tops)
        ]
        for name, numbers in rows
    ]
    return [*markdown([title, *(f"{n} floats" for n in sizes)], texts), ""]


def ratios(cases, phase, workloads, sizes, mode, grid, base, inverse=False, best=max):
    """Tables of the base allocator's time in a phase, divided by that of each allocator, or the
    inverse."""
    for workload in workloads:
        rows = []
        for allocator in cases.allocators(mode, grid):
            names = (allocator, base) if inverse else (base, allocator)
            numbers = [
                ratio(*(cases.point(phase, workload, mode, grid, name, n) for name in names))
                for n in sizes
            ]
            if allocator != base and any(numbers):
                rows.append((full_name(allocator), numbers))
        if rows:
            yield from bold_table(f"{workload}, {MODES[mode]}", sizes, rows, best)


def microseconds(point):
    if point is None or not point.values:
        return None
    return tuple(point.values[name] / point.params["mhz"] for name in ("mean", "sd", "median"))


def times(cases, phase, mode, grid):
    rows = []
    for allocator in cases.allocators(mode, grid):
        found = [cases.point(phase, "linear", mode, grid, allocator, n) for n in SIZES]
        if any(point and point.values for point in found):
            rows.append((full_name(allocator), list(map(microseconds, found))))
    return bold_table(f"{phase} (µs), {MODES[mode]}", SIZES, rows, min)


def goals(cases):
    """The goals of the project for this benchmark, on the paper's grid with barriers."""
    case = ("barrier", "paper")
    names = [name for name in cases.allocators(*case) if name.partition("+")[0] == "quarry"]

    def best_of(phase, workload, floats):
        found = {name: cases.value(phase, workload, *case, name, floats) for name in names}
        found = {name: time for name, time in found.items() if time}
        best = min(found, key=found.get, default=None)
        return best, found.get(best)

    rows = []
    for workload in MAIN:
        for n in SIZES:
            floor = cases.value("total", workload, *case, "bump", n)
            best, time = best_of("total", workload, n)
            if floor and best:
                text = f"{time / floor:.3f} ({full_name(best)})"
                rows.append([f"best total ÷ floor's, {workload}, {n}", "≤ 1.05", text])
    slow = cases.value("allocate", "linear", *case, cases.platform, 400)
    best, time = best_of("allocate", "linear", 400)
    if slow and best:
        text = f"{value_text(slow / time)} ({full_name(best)})"
        rows.append([f"malloc, 400: {NAMES[cases.platform]} ÷ best", "≥ 1000", text])
    for phase in ("allocate", "free"):
        for upstream in ("quarry", cases.platform):
            pair = [
                cases.value(phase, "linear", *case, f"{upstream}+{way}", 400)
                for way in ("dynamic", "header-warp")
            ]
            if all(pair):
                title = f"{phase}: dynamic ÷ static with header, warp, 400, over {NAMES[upstream]}"
                rows.append([title, "≤ 1.3", f"{pair[0] / pair[1]:.3g}"])
    return [*markdown(["12 × 1024 threads, barrier", "goal", "measured"], rows), ""]


def dynamic_costs(cases):
    """What choosing the superblock at run time costs, beside a choice by the compiler."""
    rows = []
    for mode, mode_name in MODES.items():
        pairs = [
            [
                cases.value(
                    *(phase, "linear", mode, "paper", f"quarry+{way}", 400), statistic="median"
                )
                for way in ("dynamic", "header-warp")
            ]
            for phase in ("allocate", "free")
        ]
        if all(map(all, pairs)):
            texts = [value_text(number) for pair in pairs for number in (*pair, pair[0] / pair[1])]
            both = sum(pair[0] for pair in pairs) / sum(pair[1] for pair in pairs)
            rows.append([mode_name, *texts, value_text(both)])
    head = ["400 floats over Quarry, cycles (median)"]
    head += [
        f"{phase}: {name}" for phase in ("malloc", "free") for name in ("dynamic", "static", "÷")
    ]
    return [*markdown([*head, "both: ÷"], rows), ""]


def map_costs(cases):
    """Claim H: the time with the map, divided by the time with headers, over CUDA's malloc."""
    sizes = (4, 24, 100, 400)
    rows = []
    for mode, mode_name in MODES.items():
        case = ("total", "linear", mode, "paper")
        for group, groups in {"warp": "warps", "block": "thread blocks"}.items():
            names = [f"{cases.platform}+{way}-{group}" for way in ("map", "header")]
            texts = [cases.ratio_text(*((*case, name, n) for name in names)) for n in sizes]
            rows.append([f"{groups}, {mode_name}", *texts])
    head = ["H: all four phases, map ÷ header", *(f"{n} floats" for n in sizes)]
    return [*markdown(head, rows), ""]


def other_grids(cases):
    """Claim O: other numbers of thread blocks."""
    grids = {"paper": "12 thread blocks", "24": "24", "48": "48", "96": "96"}
    grids["full"] = "one a multiprocessor"
    names = (cases.platform, "bump")
    rows = [
        [mode_name]
        + [
            cases.ratio_text(*(("total", "linear", mode, grid, name, 100) for name in names))
            for grid in grids
        ]
        for mode, mode_name in MODES.items()
    ]
    head = [f"O: {NAMES[cases.platform]} ÷ floor, all four phases, 100 floats", *grids.values()]
    return [*markdown(head, rows), ""]


def decline(cases):
    """Claim L: performance falls as arrays grow. Divides the rate at 400 floats by that at 100."""
    rows = []
    for workload, power in (("linear", 1), ("quadratic", 2)):
        for allocator in cases.allocators("barrier", "paper"):
            texts = []
            for mode in MODES:
                short, long = (
                    cases.value("work", workload, mode, "paper", allocator, n) for n in (100, 400)
                )
                texts.append(f"{4**power * short / long:.3g}" if short and long else DASH)
            rows.append([f"{workload}, {full_name(allocator)}", *texts])
    title = "L: performance falls as arrays grow: rate at 400 floats ÷ rate at 100"
    return [*markdown([title, *MODES.values()], rows), ""]


def steps(cases):
    """Claim M: CUDA's malloc rounds up to steps of 20 floats."""
    found = cases.points("allocate", "linear", "barrier", "paper")
    sizes = sorted({n for series in found.values() for n in series})
    rows = [
        [full_name(name), *(point_text(series.get(n)) for n in sizes)]
        for name, series in found.items()
        if len(series) > len(SIZES)
    ]
    head = ["M: malloc by floats (median, cycles)", *map(str, sizes)]
    return [*markdown(head, rows), ""] if rows else []


def few_floats(cases):
    """Claim N: fewer than 25 floats, if there are records."""
    for mode in MODES:
        found = cases.points("work", "linear", mode, "paper").get(cases.platform, {})
        sizes = [n for n in found if n < 25]
        if sizes:
            yield from ["N: speed-up of the work for few floats.", ""]
            yield from ratios(cases, "work", ("linear",), sizes, mode, "paper", cases.platform)


def machine_section(cases):
    platform = NAMES[cases.platform]
    everything = [
        point
        for mode in MODES
        for grid in GRIDS
        for point in flat(cases.points("total", "linear", mode, grid))
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
            yield from ratios(cases, "work", MAIN, SIZES, mode, grid, cases.platform)
            yield from ratios(cases, "work", OTHERS, (100, 400), mode, grid, cases.platform)
        yield from [f"### Time of malloc and free, {threads}", ""]
        for phase in ("allocate", "free"):
            for mode in MODES:
                yield from times(cases, phase, mode, grid)
        yield from [f"### Time of all four phases ÷ the floor's, {threads}", ""]
        for mode in MODES:
            yield from ratios(cases, "total", MAIN, SIZES, mode, grid, "bump", True, min)


def all_cases(data):
    cases = (Cases(data, machine) for machine in data.machines())
    return [found for found in cases if found.exists]


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
    everything = flat(cases.points("total", "linear", "none", "paper"))
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
