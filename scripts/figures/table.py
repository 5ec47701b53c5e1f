# SPDX-License-Identifier: Apache-2.0
"""A table as a specification: which records its rows, columns and cells select.

A selection is a dict: `bench`, `allocator` (quarry if absent) and params. A cell merges the
selections of its row and its column. Its writer finds points through a `View`, which remembers the
points that the table shows, for their dates and commits.
"""

from collections.abc import Callable
from dataclasses import dataclass

from . import records
from .records import point_text, value_text

DASH = "–"


def pairs_of(titles):
    """The (title, selection) pairs of a dict, or of a list of pairs."""
    return list(titles.items() if isinstance(titles, dict) else titles)


def markdown(head, rows, right=True):
    """The lines of a table. The first column is text; the others are numbers, or text too."""
    rest = "|---:" if right else "|---"
    return [
        "| " + " | ".join(head) + " |",
        "|---" + rest * (len(head) - 1) + "|",
        *("| " + " | ".join(row) + " |" for row in rows),
    ]


class Number(str):
    """A text with the number that `Table.best` compares."""

    def __new__(cls, text, number):
        result = super().__new__(cls, text)
        result.number = number
        return result


def bold(rows, best):
    """The rows with the best of each column in bold."""
    columns = list(zip(*rows))
    numbers = [[text.number for text in column if isinstance(text, Number)] for column in columns]
    tops = [best(column, default=None) for column in numbers]
    return [
        [
            f"**{text}**" if isinstance(text, Number) and text.number == top else text
            for text, top in zip(row, tops)
        ]
        for row in rows
    ]


class View:
    """The records of one machine (of all if None), and the points that cells have shown."""

    def __init__(self, data, machine):
        self.data, self.machine = data, machine
        self.seen, self.shown = [], []

    def point(self, selection):
        selection = dict(selection)
        machine = selection.pop("machine", self.machine)
        point = self.data.point(machine, selection.pop("bench"), **selection)
        self.seen += [point] if point else []
        return point

    def points(self, bench, x=None, selection=None):
        return self.data.points(self.machine, bench, x, selection)

    def text(self, writer, selection):
        """What the writer returns. Its points are shown, unless it returns None."""
        self.seen = []
        text = writer(self, selection)
        if text is not None:
            self.shown += self.seen
        return text

    def origin(self):
        return records.origin(self.shown)


@dataclass
class Table:
    """`rows` and `columns`: {title: selection}, or functions of a view that return it.

    A title that is a tuple fills several columns. The value of a column may be a writer in place of
    a selection. `head` and the texts may name {machine}, {origin} and `words`.
    """

    rows: dict | list | Callable
    columns: dict | list | Callable
    cell: Callable
    head: str | tuple = ""
    before: str = ""
    after: str = ""
    missing: str | list = ""  # the programs that measure, or the lines of an empty table
    needs: tuple = ()  # benchmarks without which a machine has no table
    each: bool = False  # a table for each machine, not for the first
    any_machine: bool = False  # one table for all machines
    keep: bool = False  # rows without a point too
    right: bool = True
    best: Callable | None = None  # max or min: the best of each column is bold
    words: Callable | None = None  # of the view: {word: text} for `head` and the texts

    def machines(self, data):
        if self.any_machine:
            return [None]
        return [
            machine
            for machine in data.machines()
            if all(data.by_bench.get((machine, bench)) for bench in self.needs)
        ]

    def body(self, view, columns):
        rows = self.rows(view) if callable(self.rows) else self.rows
        for title, selection in pairs_of(rows):
            texts = [
                (
                    view.text(column, selection)
                    if callable(column)
                    else view.text(self.cell, selection | column)
                )
                for _, column in columns
            ]
            if self.keep or any(text is not None for text in texts):
                titles = title if isinstance(title, tuple) else (title,)
                yield [*titles, *(DASH if text is None else text for text in texts)]

    def lines_of(self, data, machine):
        view = View(data, machine)
        columns = pairs_of(self.columns(view) if callable(self.columns) else self.columns)
        rows = list(self.body(view, columns))
        if not rows or not view.shown:
            return []
        words = {"machine": machine, "origin": view.origin()}
        words |= self.words(view) if self.words else {}
        head = self.head if isinstance(self.head, tuple) else (self.head,)
        titles = [title.format(**words) for title in (*head, *(title for title, _ in columns))]
        rows = bold(rows, self.best) if self.best else rows
        before = [*self.before.format(**words).split("\n"), ""] if self.before else []
        after = ["", *self.after.format(**words).split("\n")] if self.after else []
        return [*before, *markdown(titles, rows, self.right), *after]

    def __call__(self, data):
        found = (self.lines_of(data, machine) for machine in self.machines(data))
        found = [lines for lines in found if lines]
        if not found:
            return missing(self.missing) if isinstance(self.missing, str) else self.missing
        lines = [["", *lines] for lines in (found if self.each else found[:1])]
        return sum(lines, [])[1:]


def missing(programs):
    return [f"Not measured yet: `make bench` runs {programs}."]


# --- Writers of cells: functions of a view and a selection. They return None without a point.


def value(write=value_text, scale=1):
    """The median, times `scale`."""

    def text(view, selection):
        point = view.point(selection)
        return write(scale * point.median) if point and point.median is not None else None

    return text


def median_or_error(view, selection):
    point = view.point(selection)
    return point_text(point) if point else None


def spread(words):
    """The median, and in brackets p10 and p90 with `words` between."""

    def text(view, selection):
        point = view.point(selection)
        return records.range_text(point.values, "median", "p10", "p90", words) if point else None

    return text


def ratio(above, below, write=value_text, statistic="median"):
    """The quotient of two points. `above` and `below` are selections, merged into the cell's."""

    def text(view, selection):
        points = [view.point(selection | more) for more in (above, below)]
        values = [point and point.values.get(statistic) for point in points]
        return write(values[0] / values[1]) if all(values) else None

    return text


def joined(separator, *writers):
    """Several texts in one cell, if each has its point."""

    def text(view, selection):
        texts = [writer(view, selection) for writer in writers]
        return None if None in texts else separator.join(texts)

    return text


def at(writer, **more):
    """The writer with more in its selection. A column that is no plain selection."""
    return lambda view, selection: writer(view, selection | more)


def digits(form):
    """Writes a number by a format: `.2f`, or `{:.1f} %`."""
    return (form if "{" in form else f"{{:{form}}}").format
