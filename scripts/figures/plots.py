# SPDX-License-Identifier: Apache-2.0
"""The plots of plots.txt, and their parts of docs/plots/README.md. draw.py draws them."""

from collections import defaultdict
from copy import copy
from dataclasses import dataclass
from fnmatch import fnmatchcase

from .records import origin, select, x_text
from .specs import NAMES, PLOTS, names_of
from .table import DASH, View, expanded, lines, markdown

BETTER = {"↑": "higher is better", "↓": "lower is better"}
# The additions and multiplications of a thread with n floats, as the coalescing paper counts them.
OPERATIONS = {"linear": lambda n: n, "quadratic": lambda n: 2 * n * n}


def flops(point):
    """Gflop/s of all threads together, computed from a thread's mean cycles of work."""
    params, result = point.params, copy(point)
    done = params["threads"] * OPERATIONS[params["workload"]](params["floats"]) * params["mhz"]
    names = {"median": "median", "p10": "p90", "p90": "p10"}  # the slowest time is the lowest rate
    times = {name: point.values[old] for name, old in names.items() if point.values.get(old)}
    result.values = {name: done / time / 1e3 for name, time in times.items()}
    result.unit = "Gflop/s"
    return result


@dataclass
class Panel:
    """One pair of axes: a benchmark by one of its params, or several benchmarks side by side."""

    title: str
    better: str
    parts: dict  # {label: selection}, in which `?` is the value of x; without labels, {None: ...}

    def __post_init__(self):
        (chosen, *_) = self.parts.values()
        self.x = next((name for name, value in chosen.items() if value == "?"), "bytes")

    def points(self, view):
        """{allocator, with the variance of its sizes if there are several: {x or label: Point}}"""
        found = defaultdict(dict)
        for label, part in self.parts.items():
            for _, chosen in expanded(view, "", part):
                if point := view.point(chosen):
                    point = flops(point) if chosen["bench"] == "coalesced/unit/work" else point
                    names = (chosen[name] for name in ("allocator", "variance") if name in chosen)
                    series = "-".join(names).replace(" ", "-")
                    found[series][label or chosen[self.x]] = point
        return found

    def xs(self, found):
        xs = {x for series in found.values() for x in series}
        return sorted(xs) if None in self.parts else [label for label in self.parts if label in xs]


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
    remark: str = ""  # of the page alone

    def __post_init__(self):
        common, self.panels = select("allocator=@heaps", self.common), []
        self.machine = common.get("machine", "nvidia*")
        for title, text in lines(self.rows):
            parts = names_of(text) if ": " in text else {None: text}
            parts = {label: select(common, part) for label, part in parts.items()}
            self.panels.append(Panel(title[2:], BETTER[title[0]], parts))

    def points(self, data, machine):
        """The panels that have values, with their points."""
        if not fnmatchcase(machine, self.machine):
            return []
        view = View(data, machine)
        found = [(panel, panel.points(view)) for panel in self.panels]
        return [pair for pair in found if any(p.median is not None for p in flat(pair[1]))]

    def section(self, data, machine):
        """A plot, and tables of the medians that it shows."""
        panels = self.points(data, machine)
        if not panels:
            return
        everything = [point for _, found in panels for point in flat(found)]
        yield from picture(self.name, self.title, machine)
        yield from [f"Medians, {origin(everything)}. {self.remark}{self.note}".strip(), ""]
        names = NAMES["opencl"] | NAMES["heaps"] | {"quarry": "**Quarry**"}
        for panel, found in panels:
            xs = panel.xs(found)
            head = [f"{panel.title} ({flat(found)[0].unit})", *(x_text(panel.x, x) for x in xs)]
            rows = ([names[name], *(str(s.get(x, DASH)) for x in xs)] for name, s in found.items())
            yield from [*markdown(head, *rows), ""]


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
