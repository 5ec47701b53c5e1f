# SPDX-License-Identifier: Apache-2.0
"""The plots of plots.txt, and their parts of docs/plots/README.md. draw.py draws them."""

from copy import copy
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from .records import origin, point_text, select, x_text
from .specs import HEAPS, NAMES, with_variables
from .table import expanded, markdown

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


@dataclass
class Panel:
    """One pair of axes: a benchmark by one of its params, or several benchmarks side by side."""

    title: str
    better: str
    selection: dict
    x: str
    series: dict  # name -> selection
    side_by_side: dict  # label -> selection, in place of `x`

    def points(self, data, machine):
        """{name of a series: {x or the label of the benchmark: Point}}"""
        found = {}
        convert = flops if self.selection.get("bench") == "coalesced/unit/work" else copy
        for name, chosen in self.series.items():
            chosen = select(self.selection, chosen)
            beside = {x: select(chosen, more) for x, more in self.side_by_side.items()}
            points = {x: data.point(more, machine) for x, more in beside.items()}
            points = points or data.series(chosen, machine, self.x)
            found[name] = {x: convert(point) for x, point in points.items() if point}
        return {name: series for name, series in found.items() if series}

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
    columns: int
    common: dict  # part of the selection of each panel
    panels: list = field(default_factory=list)
    note: str = ""

    @property
    def machine(self):
        return self.common.get("machine", "nvidia*")

    @property
    def legend_in_panels(self):
        """Beside the lines of each panel, since panels have other series."""
        return self.name.startswith("opencl")

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


def series_of(text):
    """{name: selection} of `quarry,kma list,quarry/low`."""
    parts = [(each, *each.partition("/")[::2]) for each in text.split(",")]
    return {
        name.translate(str.maketrans("/ ", "--")): {"allocator": allocator}
        | ({"variance": variance} if variance else {})
        for name, allocator, variance in parts
    }


def panels_of(line, common):
    """The panels of a line, one for each value that it has open."""
    title, _, selection = line.partition(" > ")
    chosen = {"x": "bytes", "series": ",".join(HEAPS)} | select(selection)
    for shown, values in expanded(None, title[2:], chosen):
        x, series = values.pop("x"), series_of(values.pop("series"))
        yield Panel(shown, BETTER[title[0]], common | values, x, series, {})


def figures_of(text):
    figures, same = [], []  # `same`: the figures that have the next panels
    for line in text.splitlines():
        depth, line = len(line) - len(line.lstrip()), line.strip()
        if depth == 0 and line:
            same = [] if not same or same[-1].panels else same
            title, _, common = line.partition(" > ")
            name, _, title = title.partition(" ")
            name, _, columns = name.partition("/")
            figures.append(Figure(name, title, int(columns or 2), select(common)))
            same.append(figures[-1])
        for figure in same if depth else ():
            if line.startswith("note "):
                machine, _, words = line.removeprefix("note ").removeprefix("on ").partition(" ")
                is_for_all = not line.startswith("note on ")
                if is_for_all or machine == figure.machine:
                    figure.note += line[5:] if is_for_all else f" {words}"
            elif depth == 2:
                figure.panels += panels_of(line, figure.common)
            else:
                title, _, selection = line.partition(" > ")
                figure.panels[-1].side_by_side[title] = selection
    return figures


PATH = Path(__file__).with_name("plots.txt")
FIGURES = figures_of(with_variables(PATH.read_text(encoding="utf-8")))
