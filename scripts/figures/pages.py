# SPDX-License-Identifier: Apache-2.0
"""Rewrites the measured parts of the pages.

A page has tables between `<!-- figures:NAME:begin -->` and `<!-- figures:NAME:end -->`; tables.txt
says which page shows which tables. A sentence has a figure between `<!-- value:CELL -->` and
`<!-- /value -->`: what a cell of a table would write, and the first machine that has the point.
"""

import re

from . import heuristics
from .plots import FIGURES, picture
from .records import ROOT
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
        yield from ["`{program}` failed: {error}.".format(**record["params"]), ""]
    for figure in FIGURES:
        if not figure.name.startswith("coalesced"):  # these have a page of their own
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
    shown = {page: {} for page in sorted(DESIGN)} | {PLOTS: {"plots": [plots], "tables": [apart]}}
    others = {}
    for place, fields in TABLES:
        if ": " in place:
            others.setdefault(tuple(place.split(": ")), []).append(Table(**fields))
        else:
            page, part = place.split()
            shown.setdefault(page, {}).setdefault(part, []).append(Table(**fields))
    return shown, others


SHOWN, APART = tables_of_pages()


def written(tables, data):
    return blocks([list(table(data)) for table in tables])


def value_in_sentence(cell, data, path):
    """What a cell writes for the first machine that has its point."""
    for machine in data.machines():
        if text := View(data, machine).text({}, cell):
            return f"{text} on {machine}"
    raise SystemExit(f"error: {path} shows the value '{cell}'; bench/results has none")


def rewritten(path, text, tables, data):
    """The page with new measured parts. Exits if the page lacks a part or has an unknown one."""
    found = [match[1] for match in MARK.finditer(text)]
    if sorted(found) != sorted(tables):
        raise SystemExit(f"error: {path} has the parts {found}; it must have {list(tables)}")

    def write(match):
        lines = "\n".join(written(tables[match[1]], data)).strip()
        return f"<!-- figures:{match[1]}:begin -->\n{lines}\n<!-- figures:{match[1]}:end -->"

    def write_value(match):
        shown = value_in_sentence(match[1], data, path)
        return f"<!-- value:{match[1]} -->{shown}<!-- /value -->"

    return VALUE.sub(write_value, MARK.sub(write, text))


def wanted(data, root):
    """{path: text} of all pages."""
    texts = {name: (root / name).read_text(encoding="utf-8") for name in SHOWN}
    return {root / n: rewritten(n, text, SHOWN[n], data) for n, text in texts.items()}
