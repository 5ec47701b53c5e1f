# SPDX-License-Identifier: Apache-2.0
"""A table as a specification: which records its rows, columns and cells select.

Rows and columns are pairs of a title and a selection (records.py says what that is). A cell merges
the selections of its row and its column. A `|` in a title separates columns. Pairs are made by a
text of lines `title > selection`, by a dict, by a function of a view, or by a list of these.
`goal` in a selection is for the column of goals: it selects nothing.
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


def blocks(parts):
    """The lines of all parts, with an empty line between them."""
    return sum((["", *part] for part in parts if part), [])[1:]


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


def of_point(write):
    """Writes a point, or its failure."""

    def text(view, selection):
        point = view.point(selection)
        return point and (point.error if point.median is None else write(point))

    return text


def value(form=None, scale=1):
    """The median, times `scale`."""
    return of_point(lambda point: form_of(form)(scale * point.median))


def spread(words="–"):
    """The median, and in brackets p10 and p90, or the least and the greatest run."""

    def text(point):
        low, high = (value_text(point.values.get(name, 0)) for name in ("p10", "p90"))
        alone = "p10" not in point.values or (point.runs and low == high)
        return value_text(point.median) + ("" if alone else f" ({low}{words}{high})")

    return of_point(text)


def ratio(above, below, form=None, statistic="median"):
    """The quotient of two points. `above` and `below` are selections, merged into the cell's."""

    def text(view, selection):
        points = [view.point(selection, more) for more in (above, below)]
        values = [point and point.values.get(statistic) for point in points]
        return form_of(form)(values[0] / values[1]) if all(values) else None

    return text


def at(more, writer):
    """The writer with more in its selection; `{bench}` is the benchmark."""

    def text(view, selection):
        chosen = select(more)
        if "bench" in chosen:
            chosen["bench"] = chosen["bench"].replace("{bench}", selection.get("bench", ""))
        return writer(view, select(selection, chosen))

    return text


def joined(separator, *writers):
    """Several texts in one cell, if the first has its point."""

    def text(view, selection):
        texts = [writer(view, selection) for writer in writers]
        return texts[0] and separator.join(filter(None, texts))

    return text


# --- Rows and columns


def lines(text):
    found = (line.rpartition(" > ") for line in text.strip().splitlines())
    return [(title.strip(), select(chosen)) for title, _, chosen in found]


def pairs_of(parts, view):
    """The pairs, whatever they are made from."""
    if callable(parts) or isinstance(parts, str):
        return lines(parts) if isinstance(parts, str) else list(parts(view))
    parts = parts.items() if isinstance(parts, dict) else parts
    return sum(([p] if isinstance(p, tuple) else pairs_of(p, view) for p in parts), [])


def titled(title, values, titles):
    """A title in which {name} is a value: its text in `titles`, or as x_text says."""
    return title.format(**{n: (titles or {}).get(v) or x_text(n, v) for n, v in values.items()})


def each(title, selection="", titles=None, **params):
    """A pair for each combination of the values of params."""
    found = (dict(zip(params, values)) for values in product(*params.values()))
    return [(titled(title, values, titles), select(selection, values)) for values in found]


def named(param, titles):
    """A pair for each value of one param, from {value: title}."""
    return [(title, {param: name}) for name, title in titles.items()]


def found(title, selection, params, titles=None, cells=None):
    """A pair for each combination of values in the records. `titles`: the order, as far as it goes.

    `cells`: the selection of the cells, if it is not that of the records.
    """
    order, params = list(titles or {}), params.split()

    def place(key):
        return [(order.index(v), "") if v in order else (len(order), v) for v in key]

    def pairs(view):
        for key in sorted(view.data.points(selection, view.machine, params), key=place):
            values = dict(zip(params, key))
            more = select(selection if cells is None else cells, values)
            yield titled(title, values, titles), more

    return pairs


# --- Tables


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
    best: Callable | None = None  # max or min: the best number of each column is bold
    words: Callable | None = None  # of the view: {word: text}

    def lines_of(self, data, machine):
        view, rows = View(data, machine), []
        columns = pairs_of(self.columns, view)
        for title, selection in pairs_of(self.rows, view):
            writers = [c if callable(c) else at(c, self.cell) for _, c in columns]
            texts = [view.text(writer, select(selection)) for writer in writers]
            if self.keep or any(text is not None for text in texts):
                texts = [DASH if text is None else text for text in texts]
                rows.append([*map(str.strip, title.split("|")), *texts])
        if not view.shown:
            return []
        machines = "; ".join(dict.fromkeys(point.machine for point in view.shown))
        words = {"machine": machine, "machines": machines, "origin": origin(view.shown)}
        words |= self.words(view) if self.words else {}
        head = "|".join([self.head, *(title for title, _ in columns)]).format(**words)
        before, after = (text.format(**words).splitlines() for text in (self.before, self.after))
        rows = bold(rows, self.best, self.head.count("|") + 1) if self.best else rows
        return blocks([before, markdown([*map(str.strip, head.split("|"))], rows), after])

    def __call__(self, data):
        machines = [None] if self.machines == "all" else data.machines()
        found = [lines for lines in (self.lines_of(data, machine) for machine in machines) if lines]
        return blocks(found if self.machines == "each" else found[:1]) or ["Not measured yet."]


def bold(rows, best, titles):
    """The rows with the best of each column in bold. `titles`: the columns before the cells."""

    def number(text):
        return float(text.split(" ")[0].replace(",", "")) if text[:1].isdigit() else None

    columns = ([n for n in map(number, column) if n is not None] for column in zip(*rows))
    tops = [best(c) if c and nth >= titles else None for nth, c in enumerate(columns)]
    is_best = lambda text, top: top is not None and number(text) == top  # noqa: E731
    return [[f"**{t}**" if is_best(t, top) else t for t, top in zip(r, tops)] for r in rows]
