# SPDX-License-Identifier: Apache-2.0
"""Rewrites the measured parts of the pages.

A page has tables between `<!-- figures:NAME:begin -->` and `<!-- figures:NAME:end -->`. A sentence
has a figure between `<!-- value:SELECTION -->` and `<!-- /value -->`: a median with its unit, and
the first machine that has it. tables.txt says which page shows which tables.
"""

import re

from . import heuristics, programs
from .plots import FIGURES, picture
from .records import ROOT, point_text, value_text
from .specs import TABLES
from .table import Table, View, blocks

MARK = re.compile(r"<!-- figures:([\w-]+):begin -->\n(.*?)<!-- figures:\1:end -->", re.DOTALL)
VALUE = re.compile(r"<!-- value:([^>]+?) -->(.*?)<!-- /value -->", re.DOTALL)
PLOTS = "docs/plots/README.md"
LOG = "docs/design/measurement_log.md"  # typed by hand
DESIGN = {f"docs/design/{path.name}" for path in (ROOT / "docs/design").glob("*.md")} - {LOG}


def plots(data):
    """The plots of each machine that has some, with tables of the medians that they show."""
    for machine in data.machines():
        lines = list(plots_of(data, machine))
        yield from [f"## {machine}", "", *lines] if lines else []


def plots_of(data, machine):
    last = max(record["date"] for record in data.records if record["machine"] == machine)
    for record in data.matching(f"failed date={last}", machine):
        params = record["params"]
        yield from [f"`{params['program']}` failed: {params['error']}.", ""]
    for figure in FIGURES:  # coalesced allocation has a page of its own
        if figure.name.startswith("coalesced"):
            continue
        yield from figure.section(data, machine)
    if heuristics.tuned(View(data, machine), "simulation"):
        yield from picture(heuristics.NAME, heuristics.TITLE, machine)
        yield "[Traces](../design/traces.md#the-posters-figures) says what the plot shows."


def apart(data):
    """The tables of the design that its pages only name."""
    for (page, title), tables in APART.items():
        yield from [f"### {title}", "", f"For [{page}](../design/{page}).", ""]
        yield from [*written(tables, data), ""]


def tables_of_pages():
    """{page: {part: functions of records}}, and {(page, title): functions} of docs/plots."""
    shown = {page: {} for page in sorted(DESIGN)} | {
        PLOTS: {"plots": [plots], "tables": [apart]},
        "docs/design/mpi_programs.md": {"others": [programs.others]},
    }
    others = {}
    for place, fields in TABLES:
        table = Table(**fields)
        page, sign, title = place.partition(": ")
        if sign:
            others.setdefault((page, title), []).append(table)
        else:
            page, part = place.split()
            shown.setdefault(page, {}).setdefault(part, []).append(table)
    return shown, others


SHOWN, APART = tables_of_pages()


def written(tables, data):
    return blocks([list(table(data)) for table in tables])


def value_in_sentence(data, selection, path):
    for machine in data.machines():
        point = data.point(selection, machine)
        if point and point.median is not None:
            if point.unit == "ratio":
                return f"{value_text(100 * point.median)} % on {machine}"
            return f"{point_text(point)} {point.unit} on {machine}"
    raise SystemExit(f"error: {path} shows the value '{selection}'; bench/results has none")


def rewritten(path, text, tables, data):
    """The page with new measured parts. Exits if the page lacks a part or has an unknown one."""
    found = [match.group(1) for match in MARK.finditer(text)]
    if sorted(found) != sorted(tables):
        raise SystemExit(f"error: {path} has the parts {found}; it must have {list(tables)}")

    def write(match):
        name = match.group(1)
        lines = "\n".join(written(tables[name], data)).strip()
        return f"<!-- figures:{name}:begin -->\n{lines}\n<!-- figures:{name}:end -->"

    def write_value(match):
        selection = match.group(1)
        shown = value_in_sentence(data, selection, path)
        return f"<!-- value:{selection} -->{shown}<!-- /value -->"

    return VALUE.sub(write_value, MARK.sub(write, text))


def wanted(data, root):
    """{path: text} of all pages."""
    texts = {name: (root / name).read_text(encoding="utf-8") for name in SHOWN}
    return {root / n: rewritten(n, text, SHOWN[n], data) for n, text in texts.items()}
