# SPDX-License-Identifier: Apache-2.0
"""A table as a specification: which records its rows, columns and cells select.

A cell merges the selections of its row and its column (records.py says what a selection is). Its
writer finds points through a `View`, which remembers the points that the table shows, for their
dates and commits. `goal` in a selection is for the column of goals: it selects nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

from .records import origin, select, value_text, x_text

DASH = "–"


def markdown(head, rows, right=True):
    """The lines of a table. The first column is text; the others are numbers, or text too."""
    rest = "|---:" if right else "|---"
    lines = ["| " + " | ".join(row) + " |" for row in (head, *rows)]
    return [lines[0], "|---" + rest * (len(head) - 1) + "|", *lines[1:]]


class View:
    """The records of one machine (of all if None), and the points that cells have shown."""

    def __init__(self, data, machine):
        self.data, self.machine = data, machine
        self.seen, self.shown = [], []

    def point(self, *selection):
        selection = select(*selection)
        selection.pop("goal", None)
        point = self.data.point(selection, self.machine)
        self.seen += [point] if point else []
        return point

    def median(self, *selection):
        point = self.point(*selection)
        return point.median if point else None

    def text(self, writer, selection):
        """What the writer returns. Its points are shown, unless it returns None."""
        self.seen = []
        text = writer(self, selection)
        self.shown += self.seen if text is not None else []
        return text


# --- Writers of cells: functions of a view and a selection. They return None without a point.


def form_of(form):
    """A function that writes a number by a format: `.2f`, or `{:.1f} %`."""
    if form is None or callable(form):
        return form or value_text
    return (form if "{" in form else f"{{:{form}}}").format


def value(form=None, scale=1, more=""):
    """The median, times `scale`; or the failure."""

    def text(view, selection):
        point = view.point(selection, more)
        if point and point.median is not None:
            return form_of(form)(scale * point.median)
        return point and point.error

    return text


def spread(words="–", more="", missing=None):
    """The median, and in brackets p10 and p90, or the least and the greatest run."""

    def text(view, selection):
        point = view.point(selection, more)
        if point is None or point.median is None:
            return point.error if point else missing
        low, high = (value_text(point.values.get(name, 0)) for name in ("p10", "p90"))
        alone = "p10" not in point.values or (point.runs and low == high)
        return value_text(point.median) + ("" if alone else f" ({low}{words}{high})")

    return text


def ratio(above, below, form=None, statistic="median"):
    """The quotient of two points. `above` and `below` are selections, merged into the cell's."""

    def text(view, selection):
        points = [view.point(selection, more) for more in (above, below)]
        values = [point and point.values.get(statistic) for point in points]
        return form_of(form)(values[0] / values[1]) if all(values) else None

    return text


def unit(more=""):
    """The unit of the cell's points."""
    return lambda view, selection: (point := view.point(selection, more)) and point.unit


def param(name, nth=None):
    """A param, or a part of it."""

    def text(view, selection):
        point = view.point(selection)
        return point and x_text(
            name, point.params[name] if nth is None else point.params[name][nth]
        )

    return text


def joined(separator, *writers):
    """Several texts in one cell, if the first has its point."""

    def text(view, selection):
        texts = [writer(view, selection) for writer in writers]
        return texts[0] and separator.join(filter(None, texts))

    return text


# --- Rows and columns: pairs of a title and a selection, or functions of a view that return them.
# A `|` in a title separates columns.


def lines(text):
    """Pairs from lines `title > selection`."""
    found = (line.rpartition(" > ") for line in text.strip().splitlines())
    return [(title.strip(), chosen) for title, _, chosen in found]


def titled(title, chosen, titles):
    """A title in which {name} is a value of `chosen`: its text in `titles`, or as x_text says."""
    return title.format(**{n: titles.get(v) or x_text(n, v) for n, v in chosen.items()})


def each(title, selection="", titles=None, **params):
    """A pair for each combination of the values of params."""
    found = (dict(zip(params, values)) for values in product(*params.values()))
    return [(titled(title, each, titles or {}), select(selection, each)) for each in found]


def named(param, titles, selection=""):
    """A pair for each value of one param, from {value: title}."""
    return [(title, select(selection, {param: name})) for name, title in titles.items()]


def found(title, selection, params, titles=None, cells=None):
    """A pair for each combination of values in the records. `titles`: the order, as far as it goes.

    `cells`: the selection of the cells, if it is not that of the records.
    """
    order, params = list(titles or {}), params.split()

    def place(value):
        return (order.index(value), "") if value in order else (len(order), value)

    def pairs(view):
        chosen = select(selection)
        chosen.pop("goal", None)
        keys = view.data.points(chosen, view.machine, params)
        for key in sorted(keys, key=lambda key: [place(value) for value in key]):
            values = dict(zip(params, key))
            more = selection if cells is None else cells
            yield titled(title, values, titles or {}), select(more, values)

    return pairs


def of_view(pairs, view):
    """The pairs, whatever they are made from: a function, a text, a dict, or a list of these."""
    if callable(pairs):
        return list(pairs(view))
    if isinstance(pairs, str):
        return lines(pairs)
    if isinstance(pairs, dict):
        return list(pairs.items())
    parts = ([each] if isinstance(each, tuple) else of_view(each, view) for each in pairs)
    return [pair for part in parts for pair in part]


@dataclass
class Table:
    """A column whose value is a function writes its cells by itself. `before`, `head` and `after`
    may name {machine}, {machines} and {origin} of the points, and what `words` returns."""

    rows: object
    columns: object
    cell: Callable = value()
    head: str = ""
    before: str = ""
    after: str = ""
    machines: str = "first"  # with points; `each`: a table for each machine; `all`: one for all
    keep: bool = False  # rows without a point too
    right: bool = True
    best: Callable | None = None  # max or min: the best number of each column is bold
    words: Callable | None = None  # of the view: {word: text}

    def lines_of(self, data, machine):
        view = View(data, machine)
        columns, rows = of_view(self.columns, view), []
        for title, selection in of_view(self.rows, view):
            selection = select(selection)
            texts = [
                view.text(column, selection)
                if callable(column)
                else view.text(self.cell, select(selection, column))
                for _, column in columns
            ]
            if self.keep or any(text is not None for text in texts):
                rows.append([*title.split("|"), *(DASH if t is None else t for t in texts)])
        if not view.shown:
            return []
        words = {"machine": machine, "origin": origin(view.shown)}
        words["machines"] = "; ".join(dict.fromkeys(point.machine for point in view.shown))
        words |= self.words(view) if self.words else {}
        head, *others = (
            text.format(**words).split("\n") if text else []
            for text in ("|".join([self.head, *(t for t, _ in columns)]), self.before, self.after)
        )
        rows = [[text.strip() for text in row] for row in rows]
        titles = [text.strip() for text in head[0].split("|")]
        before, after = others
        return [
            *(before and [*before, ""]),
            *markdown(titles, bold(rows, self.best, self.head.count("|") + 1), self.right),
            *(after and ["", *after]),
        ]

    def __call__(self, data):
        machines = [None] if self.machines == "all" else data.machines()
        found = [lines for lines in (self.lines_of(data, machine) for machine in machines) if lines]
        return blocks(found if self.machines == "each" else found[:1]) or ["Not measured yet."]


def blocks(parts):
    """The lines of all parts, with an empty line between them."""
    return sum((["", *part] for part in parts), [])[1:]


def bold(rows, best, titles):
    """The rows with the best of each column in bold. `titles`: the columns before the cells."""

    def number(text):
        try:
            return float(text.split(" ")[0].replace(",", ""))
        except ValueError:
            return None

    if best is None:
        return rows
    columns = ([n for n in map(number, column) if n is not None] for column in zip(*rows))
    tops = [best(c) if c and nth >= titles else None for nth, c in enumerate(columns)]
    return [
        [f"**{t}**" if top is not None and number(t) == top else t for t, top in zip(row, tops)]
        for row in rows
    ]
