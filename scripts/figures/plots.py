# SPDX-License-Identifier: Apache-2.0
"""The plots of plots.txt, and their parts of docs/plots/README.md. draw.py draws them."""

from copy import copy
from dataclasses import dataclass
from fnmatch import fnmatchcase

from .records import origin, point_text, select, x_text
from .specs import HEAPS, NAMES, PLOTS, names_of
from .table import expanded, lines, markdown

BETTER = {"↑": "higher is better", "↓": "lower is better"}
# The additions and multiplications of a thread with n floats, as the coalescing paper counts them.
OPERATIONS = {"linear": lambda n: n, "quadratic": lambda n: 2 * n * n}
HANGS = (
    "`hangs`: the kernel did not end when it was tried; the benchmarks now leave it out "
    "(bench/allocators.hpp)."
)


def flops(point):
    """Gflop/s of all threads together, computed from a thread's mean cycles of work."""
    done = point.params["threads"] * OPERATIONS[point.params["workload"]](point.params["floats"])
    rate = lambda name: done * point.params["mhz"] / point.values[name] / 1e3  # noqa: E731
    names = {"median": "median", "p10": "p90", "p90": "p10"}  # the slowest time is the lowest rate
    result = copy(point)
    result.values = {name: rate(old) for name, old in names.items() if point.values.get(old)}
    result.unit = "Gflop/s"
    return result


def series_of(text):
    """{name: selection} of `quarry,kma list,quarry/low`."""
    pairs = (each.partition("/")[::2] for each in text.split(","))
    return {
        "-".join(filter(None, (allocator, variance))).replace(" ", "-"): {"allocator": allocator}
        | ({"variance": variance} if variance else {})
        for allocator, variance in pairs
    }


@dataclass
class Panel:
    """One pair of axes: a benchmark by one of its params, or several benchmarks side by side."""

    title: str
    better: str
    selection: dict
    side_by_side: dict  # label -> selection, in place of x

    def __post_init__(self):
        self.x = self.selection.pop("x", "bytes")
        self.series = series_of(self.selection.pop("series", ",".join(HEAPS)))

    def points(self, data, machine):
        """{name of a series: {x or the label of the benchmark: Point}}"""
        found = {}
        for name, own in self.series.items():
            chosen = select(self.selection, own)
            if self.side_by_side:
                points = {
                    x: data.point(select(chosen, more), machine)
                    for x, more in self.side_by_side.items()
                }
            else:
                points = data.series(chosen, machine, self.x)
            convert = flops if chosen.get("bench") == "coalesced/unit/work" else copy
            found[name] = {x: convert(point) for x, point in points.items() if point}
        return {name: points for name, points in found.items() if points}

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
    rows: str  # a panel is `↑ title > selection`, or `↓ title > label: selection | ...`
    common: str = ""  # part of the selection of each panel
    panels_a_row: int = 2
    legend: str = "one"  # for all panels; `each`: beside each panel, since they have other series
    note: str = ""

    def __post_init__(self):
        common, self.panels = select(self.common), []
        self.machine = common.get("machine", "nvidia*")
        for title, text in lines(self.rows):
            beside = names_of(text) if ": " in text else {}
            chosen = select(common, None if beside else text)
            for shown, values in expanded(None, title[2:], chosen):  # one for each open value
                self.panels.append(Panel(shown, BETTER[title[0]], values, beside))

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


def picture(name, title, machine):
    """The lines of a plot in a page."""
    path = f"{name}.{machine}"
    return [f"### {title}", "", f"[![{title}]({path}.png)]({path}.svg)", ""]


def figures():
    rows = {}
    for place, fields in PLOTS:
        name, _, title = place.partition(": ")
        rows[name] = fields.pop("rows") or rows[fields.pop("panels")]
        yield Figure(name, title, rows[name], **fields)


FIGURES = list(figures())
