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

What a cell writes is a text too, of the table, or of a column whose line has it after ` > `:

    SELECTION ÷ SELECTION : FORM & SELECTION : FORM

Its selections are merged into the cell's; `{name}` in them is the row's value of a param. The form
is Python's format of the median or quotient, and may name the point's unit, statistics and params;
`{:.1f in %}` converts by FACTORS. `= name` is a function of CELLS. Rows and columns in which no
cell has a point are left out.
"""

import re
from dataclasses import dataclass
from functools import cache

from . import coalescing, heuristics
from .records import origin, select, value_text, x_text
from .specs import NAMES

DASH = "–"
FACTORS = {"%": 100, "% more": 100, "ps": 1000, "ms": 1e-3, "MiB": 2**-20, "GiB": 2**-30}


def markdown(*rows):
    """The lines of a table. The first row is the head, and the first column is text."""
    head, *others = ("| " + " | ".join(row) + " |" for row in rows)
    return [head, "|---" + "|---:" * (len(rows[0]) - 1) + "|", *others]


def blocks(parts):
    """The lines of all parts, with an empty line between them."""
    return sum((["", *part] for part in parts if part), [])[1:]


class Number(float):
    """A number with three significant digits, if its format has no digits."""

    def __format__(self, form):
        form, _, unit = form.partition(" in ")
        number = float(self) * FACTORS.get(unit, 1) - (100 if unit == "% more" else 0)
        return format(number, form) if form else value_text(number)


def param(value):
    """The value of a param for a form: numbers can be formatted, True is `yes`."""
    if isinstance(value, bool):
        return "yes" if value else "**no**"
    return Number(value) if isinstance(value, (int, float)) else value


def spread(point):
    """The median, and in brackets p10 and p90, or the least and the greatest run."""
    ends = [value_text(point.values[name]) for name in ("p10", "p90") if name in point.values]
    return value_text(point.median) + (f" ({'–'.join(ends)})" if ends else "")


# --- Rows and columns: pairs of a title and a selection


def lines(text):
    """The pairs of a title and the text after its last ` > `."""
    found = (f"{line} ".rpartition(" > ") for line in text.strip().split("\n"))
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
    if text == "last":
        return {value: x_text(name, value) for value in values[-1:]}
    texts = {str(value) for value in values}
    others = sorted({value for value in values if str(value) not in names})
    listed = {value: title for value, title in names.items() if value in texts}
    return listed | {value: x_text(name, value) for value in others}


def shown(name, text):
    """The value of a param in a selection, as a title has it."""
    return x_text(name, int(text) if text.isdigit() else text)


def expanded(view, title, chosen):
    """The rows or columns of one line."""
    name = next((name for name, value in chosen.items() if is_open(value)), None)
    if name is None:
        yield re.sub(r"{(\w+)}", lambda m: shown(m[1], chosen.get(m[1], m[0])), title), chosen
        return
    for value, text in values_of(view, chosen, name).items():
        yield from expanded(view, title.replace(f"{{{name}}}", text), chosen | {name: value})


# --- Cells


@cache
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
        self.data, self.machine, self.shown = data, machine, []

    def point(self, cell, more=""):
        """The point of a cell, or None. `more` is merged into the cell, and may name its values."""
        more = re.sub(r"{([.\w]+)}", lambda match: str(cell.get(match[1])), more)
        point = self.data.point(select(cell, more), self.machine)
        self.shown += [point] if point else []
        return point

    def value(self, cell, more):
        """The median of a cell's point, or another `.statistic`; None without point or value."""
        point = self.point(cell, more)
        return point and point.values.get(cell.get(".statistic", "median"))

    def text(self, cell, form):
        """What a cell writes. None, and no point is shown, if its first part has no point."""
        before = len(self.shown)
        if form.startswith("= "):
            texts = [CELLS[form[2:]](self, cell)]
        else:
            texts = [self.part(cell, *part) for part in parsed(form)]
        if texts[0] is None:
            del self.shown[before:]
            return None
        return "".join(filter(None, texts))

    def part(self, cell, above, below, form):
        """A point or a quotient as the form says, a failure as its reason; None without a point."""
        point = self.point(cell, above)
        if point is None:
            return None
        number = point.values.get(cell.get(".statistic", "median"))
        if below is not None:
            divisor = self.value(cell, below)
            if not number or not divisor:
                return None
            number /= divisor
        if number is None:
            return "" if form == "{unit}" else point.error
        return form.format(Number(number), **words_of(point))


def words_of(point):
    """What a form may name: a point's statistics, unit, spread and params."""
    mhz = point.params.get("mhz", 1)
    return {name: Number(value) for name, value in point.values.items()} | {
        "us": {name: Number(value / mhz) for name, value in point.values.items()},
        "params": {name: param(value) for name, value in point.params.items()},
        "unit": point.unit,
        "spread": spread(point),
    }


def goal(view, cell):
    """The goal of a row, and whether its point meets the goal."""
    if ".goal" not in cell:
        return ""
    point, (sign, limit) = view.point(cell), cell[".goal"].replace(",", "").split()
    if point is None:
        return None
    found, limit = point.median, float(limit)
    is_met = found is not None and (found >= limit if sign == "≥" else found <= limit)
    return f"{cell['.goal']}: {'met' if is_met else '**missed**'}"


CELLS = {"goal": goal, "coalescing": coalescing.verdict, "heuristics": heuristics.verdict_of}

# --- Tables


@dataclass
class Table:
    """`before`, `head` and `after` may name {machine}, {machines} and {origin} of the points.

    If no text names {origin}, it stands below the table, with the machines.
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

    def __post_init__(self):
        if "{origin}" not in self.before + self.head + self.after:
            self.after = "{machines}, {origin}."

    def columns_of(self, view):
        """(title, selection, cell) of each column."""
        for title, text in lines(self.columns):
            if re.search(r"÷|( |^)[:&=]( |$)", text):
                yield title, {}, text
            else:
                yield from ((*pair, self.cell) for pair in expanded(view, title, select(text)))

    def rows_of(self, view):
        for title, chosen in lines(self.rows):
            own = select(chosen)  # first, since the order of params is the order of rows
            yield from expanded(view, title, select(own, self.common, own))

    def lines_of(self, data, machine):
        view, titles, texts = View(data, machine), [], []
        columns = list(self.columns_of(view))
        for title, row in self.rows_of(view):
            cells = [view.text(select(row, chosen), form) for _, chosen, form in columns]
            if any(cells):
                titles.append(split(title))
                texts.append(cells)
        if not any(point.date for point in view.shown):
            return []
        machines = "; ".join(dict.fromkeys(point.machine for point in view.shown))
        words = {"machine": machine, "machines": machines, "origin": origin(view.shown)}
        before, head, after = (t.format(**words) for t in (self.before, self.head, self.after))
        shown_columns = [*zip(split(head), *titles)]
        for (title, *_), *column in zip(columns, *texts):
            if any(text is not None for text in column):
                column = [DASH if text is None else text for text in column]
                shown_columns.append([title, *(bold(column, self.best) if self.best else column)])
        return blocks([before.splitlines(), markdown(*zip(*shown_columns)), after.splitlines()])

    def __call__(self, data):
        machines = [None] if self.machines == "all" else data.machines()
        found = [lines for lines in (self.lines_of(data, machine) for machine in machines) if lines]
        return blocks(found if self.machines == "each" else found[:1]) or ["Not measured yet."]


def split(title):
    """The titles of several columns."""
    return [part.strip() for part in title.split("|")]


def bold(column, best):
    """The texts of a column, with the greatest (`max`) or the least (`min`) number in bold."""
    found = (re.match(r"[\d,.]+", text) for text in column)
    numbers = [float(match[0].replace(",", "")) if match else None for match in found]
    top = {"max": max, "min": min}[best]((n for n in numbers if n is not None), default=None)
    return [text if n is None or n != top else f"**{text}**" for text, n in zip(column, numbers)]
