# SPDX-License-Identifier: Apache-2.0
"""A table as a specification in text: which records rows and columns select, and what cells write.

A row or a column is a line `title > selection`; records.py says what a selection is. An indented
line continues the line before it. A `|` in a title separates columns. A cell merges the selections
of its row and its column. A line makes several rows or columns if a value in it is one of these;
`{name}` in the title is the value of the param:

    bytes=16|64     each of these values
    malloc=@mallocs each name of the list `mallocs`, with its title
    ranks=?         each value in the records; `?orders`: in the order and with titles of a list
    commit=last     the value of the newest record
    bytes=16,64     both points in one cell

What a cell writes is a text too, of the table, or of a column whose line has it after ` > `:

    SELECTION ÷ SELECTION : FORM & SELECTION : FORM

Its selections are merged into the cell's; `{name}` in them is the row's value of a param. The form
is Python's format of the median or quotient, and may name the point's unit, statistics and params;
`{:.1f in %}` converts by FACTORS. `= name` is a function of CELLS. Rows and columns in which no
cell has a point are left out.
"""

import re
from dataclasses import dataclass

from . import coalescing, heuristics
from .records import origin, select, value_text, x_text
from .specs import NAMES

DASH = "–"
FACTORS = {"%": 100, "% more": 100, "ps": 1000, "ms": 1e-3, "MiB": 2**-20, "GiB": 2**-30}


def markdown(head, rows, right=True):
    """The lines of a table. The first column is text; the others are numbers, or text too."""
    rest = "|---:" if right else "|---"
    lines = ["| " + " | ".join(row) + " |" for row in (head, *rows)]
    return [lines[0], "|---" + rest * (len(head) - 1) + "|", *lines[1:]]


def blocks(parts):
    """The lines of all parts, with an empty line between them."""
    return sum((["", *part] for part in parts if part), [])[1:]


class Number(float):
    """A number with three significant digits, if its format has no digits."""

    def __format__(self, form):
        form, _, unit = form.partition(" in ")
        number = float(self) * FACTORS.get(unit, 1)
        number = number - 100 if unit == "% more" else number
        return format(number, form) if form else value_text(number)


def spread(point):
    """The median, and in brackets p10 and p90, or the least and the greatest run."""
    low, high = (value_text(point.values.get(name, 0)) for name in ("p10", "p90"))
    alone = "p10" not in point.values or (point.runs and low == high)
    return value_text(point.median) + ("" if alone else f" ({low}–{high})")


# --- Rows and columns: pairs of a title and a selection


def lines(text):
    found = (f"{line} ".rpartition(" > ") for line in text.strip().replace("\n  ", " ").split("\n"))
    return [(title.strip(), chosen.strip()) for title, _, chosen in found]


def is_open(value):
    """Whether the value of a param stands for several ones, or for one that the records have."""
    return str(value)[:1] in ("@", "?") or "|" in str(value) or value == "last"


def values_of(view, chosen, name):
    """{value: title} for which a param stands."""
    text = chosen[name]
    if "|" in text:
        return {value: shown(name, value) for value in text.split("|")}
    names = NAMES.get(text[1:], {})
    if text[0] == "@":
        return names
    wanted = {n: "*" if is_open(value) else value for n, value in chosen.items()}
    all_values = (record["all"].get(name) for record in view.data.matching(wanted, view.machine))
    values = [value for value in all_values if value is not None]
    order = {value: place for place, value in enumerate(names)}
    keys = {v: (order.get(str(v), len(order)), "" if str(v) in order else v) for v in values}
    values = values[-1:] if text == "last" else sorted(keys, key=keys.get)
    return {value: names.get(str(value)) or x_text(name, value) for value in values}


def shown(name, value):
    numbers = str(value).split(",")
    is_number = all(map(str.isdigit, numbers))
    return " / ".join(x_text(name, int(n)) for n in numbers) if is_number else x_text(name, value)


def expanded(view, title, chosen):
    """The rows or columns of one line."""
    name = next((name for name, value in chosen.items() if is_open(value)), None)
    if name is None:
        yield re.sub(r"{(\w+)}", lambda m: shown(m[1], chosen.get(m[1], m[0])), title), chosen
        return
    for value, text in values_of(view, chosen, name).items():
        yield from expanded(view, title.replace(f"{{{name}}}", text), chosen | {name: value})


# --- Cells


def parsed(text):
    """A cell's text as its parts: (selection, selection below the ÷ or None, form)."""
    parts = (re.split(r"(?:^|\s):(?:\s|$)", part, maxsplit=1) for part in text.split(" & "))
    return [
        (above, below if sign else None, *(form or ["{}"]))
        for chosen, *form in parts
        for above, sign, below in [chosen.partition("÷")]
    ]


class View:
    """The records of one machine (of all if None), and the points that cells have shown."""

    def __init__(self, data, machine):
        self.data, self.machine = data, machine
        self.seen, self.shown = [], []

    def points(self, cell, more=""):
        """The points of a cell: several if a value is `16,64`, none if a point is missing."""
        more = re.sub(r"{([.\w]+)}", lambda match: str(cell.get(match[1])), more)
        chosen = select(cell, more)
        many = [n for n, v in chosen.items() if re.fullmatch(r"\d+(,\d+)+", str(v)) and n[0] != "."]
        values = chosen[many[0]].split(",") if many else [None]
        wanted = (chosen | dict.fromkeys(many, value) for value in values)
        points = [self.data.point(each, self.machine) for each in wanted]
        self.seen += filter(None, points)
        return points if all(points) else []

    def value(self, cell, more, statistic="median"):
        """The value of a cell's first point; None if a point is missing or has no value."""
        points = self.points(cell, more)
        return points[0].values.get(statistic) if points else None

    def text(self, cell, parts, statistic):
        """What a cell writes; None if its first part has no point."""
        self.seen = []
        if callable(parts):
            text = parts(self, cell)
        else:
            texts = [self.part(cell, *part, statistic) for part in parts]
            text = texts[0] and "".join(filter(None, texts))
        self.shown += self.seen if text is not None else []
        return text

    def part(self, cell, above, below, form, statistic):
        tops = self.points(cell, above)
        others = tops if below is None else self.points(cell, below)
        texts = [written(*pair, below is not None, form, statistic) for pair in zip(tops, others)]
        return " / ".join(texts) if texts and None not in texts else None


def written(point, other, is_quotient, form, statistic):
    """A point or a quotient as the form says; a failure as its reason."""
    number = point.values.get(statistic)
    if is_quotient:
        divisor = other.values.get(statistic)
        number = number / divisor if number and divisor else None
    if number is None:
        return None if is_quotient else "" if form == "{unit}" else point.error
    more = {name: Number(value) for name, value in point.values.items()}
    params = {n: Number(v) if isinstance(v, (int, float)) else v for n, v in point.params.items()}
    mhz = params.get("mhz") or 1
    us = {name: Number(value / mhz) for name, value in point.values.items()}
    more |= {"unit": point.unit, "params": params, "us": us, "spread": spread(point)}
    return form.format(Number(number), **more)


def goal(view, cell):
    """The goal of a row, one for all points or one for each; and whether the points meet it."""
    if ".goal" not in cell:
        return ""
    sign, _, limits = cell[".goal"].partition(" ")
    limits, points = limits.replace(",", "").split(" / "), view.points(cell)
    limits = limits if len(limits) > 1 else limits * len(points)
    pairs = [(point.median, float(limit)) for point, limit in zip(points, limits)]
    met = [m is not None and (m >= limit if sign == "≥" else m <= limit) for m, limit in pairs]
    verdict = "met" if all(met) else "in part" if any(met) else "**missed**"
    return f"{cell['.goal']}: {verdict}" if met else None


CELLS = {"goal": goal, "coalescing": coalescing.verdict, "heuristics": heuristics.verdict_of}

# --- Tables


@dataclass
class Table:
    """`before`, `head` and `after` may name {machine}, {machines} and {origin} of the points.

    Each table has an origin: if none of them names it, it stands below the table, or for all
    machines above the table with their names.
    """

    rows: str
    columns: str
    cell: str = ""
    head: str = ""
    before: str = ""
    after: str = ""
    common: str = ""  # part of the selection of each row
    machines: str = "first"  # with points; `each`: a table for each machine; `all`: one for all
    best: str = ""  # `max` or `min`: the best number of each column is bold
    statistic: str = "median"

    def __post_init__(self):
        text = self.before + self.head + self.after
        if "{origin}" not in text and self.machines == "all":
            self.before = "{machines}. {origin}."
        elif "{origin}" not in text:
            self.after = "{origin}." if "{machine}" in text else "{machine}, {origin}."

    def columns_of(self, view):
        """(title, selection, cell) of each column."""
        for title, text in lines(self.columns):
            has_cell = re.search(r"÷|( |^)[:&=]( |$)", text)
            pairs = [(title, {})] if has_cell else expanded(view, title, select(text))
            for shown_title, chosen in pairs:
                yield shown_title, chosen, text if has_cell else self.cell

    def rows_of(self, view):
        for title, chosen in lines(self.rows):
            own = select(chosen)  # first, since the order of params is the order of rows
            yield from expanded(view, title, select(own, self.common, own))

    def lines_of(self, data, machine):
        view, rows = View(data, machine), []
        columns = [
            (title, chosen, CELLS[cell[2:]] if cell.startswith("= ") else parsed(cell))
            for title, chosen, cell in self.columns_of(view)
        ]
        for title, row in self.rows_of(view):
            cells = [(select(row, chosen), parts) for _, chosen, parts in columns]
            texts = [view.text(*cell, self.statistic) for cell in cells]
            if any(texts):
                rows.append([*map(str.strip, title.split("|")), *texts])
        if not any(point.date for point in view.shown):
            return []
        first = self.head.count("|") + 1  # the columns before the cells
        used = [any(row[first + nth] is not None for row in rows) for nth in range(len(columns))]
        used = [True] * first + used
        rows = [[DASH if t is None else t for t, use in zip(r, used) if use] for r in rows]
        machines = "; ".join(dict.fromkeys(point.machine for point in view.shown))
        words = {"machine": machine, "machines": machines, "origin": origin(view.shown)}
        before, head, after = (t.format(**words) for t in (self.before, self.head, self.after))
        titles = [*map(str.strip, head.split("|")), *(title for title, *_ in columns)]
        titles = [title for title, use in zip(titles, used) if use]
        rows = bold(rows, {"max": max, "min": min}[self.best], first) if self.best else rows
        return blocks([before.splitlines(), markdown(titles, rows), after.splitlines()])

    def __call__(self, data):
        machines = [None] if self.machines == "all" else data.machines()
        found = [lines for lines in (self.lines_of(data, machine) for machine in machines) if lines]
        return blocks(found if self.machines == "each" else found[:1]) or ["Not measured yet."]


def bold(rows, best, first):
    """The rows with the best of each column in bold, from the column `first`."""

    def number(text):
        return float(text.split(" ")[0].replace(",", "")) if text[:1].isdigit() else None

    columns = ([n for n in map(number, column) if n is not None] for column in zip(*rows))
    tops = [best(c) if c and nth >= first else None for nth, c in enumerate(columns)]
    is_best = lambda text, top: top is not None and number(text) == top  # noqa: E731
    return [[f"**{t}**" if is_best(t, top) else t for t, top in zip(r, tops)] for r in rows]
