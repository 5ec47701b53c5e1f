# SPDX-License-Identifier: Apache-2.0
"""Reads names.txt, plots.txt and tables.txt: names with their titles, and sections of fields."""

import re
from pathlib import Path

from .records import ROOT

# The placements of pools, in the order of the library's table.
HEADER = ROOT / "include/quarry/host/pools/placements.hpp"
PLACEMENTS = re.findall(r'named_placement<[^{]*>\{\s*"(\w+)"', HEADER.read_text(encoding="utf-8"))
OF_PLACEMENTS = {  # variables of names.txt
    "DEFAULT": PLACEMENTS[0],
    "OTHER_PLACEMENTS": " | ".join(f"{name}: pool, {name}" for name in PLACEMENTS[1:]),
}
FIELDS = "head|before|after|cell|common|machines|best|panels_a_row|panels|legend|note|remark"


def text_of_specs():
    """The files as one text: without comments, each line whole, with the values of variables."""
    files = sorted(Path(__file__).parent.glob("*.txt"))  # names.txt is the first
    text = "\n".join(path.read_text(encoding="utf-8") for path in files)
    text = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"\n  +", " ", text)
    variables = OF_PLACEMENTS | dict(re.findall(r"^\$(\w+) = (.*)", text, re.MULTILINE))
    return re.sub(r"\$(\w+)", lambda match: variables[match[1]], text)


def names_of(text):
    """{name: title} of `name: title | name: title`."""
    return dict(each.split(": ", 1) for each in text.split(" | "))


def section_of(text):
    """The title of a section, and {field: text}. Other lines are `rows`; below `--`, `columns`."""
    text, _, columns = text.strip().partition("\n--\n")
    title, *lines = text.splitlines()
    fields = {"rows": []} | ({"columns": [columns]} if columns else {})
    for line in lines:
        field = re.fullmatch(f"({FIELDS}): (.*)", line)
        name, value = field.groups() if field else ("rows", line)
        fields.setdefault(name, []).append(value)
    return title, {name: "\n".join(values) for name, values in fields.items()}


BEGINNING, *PARTS = text_of_specs().split("\n== ")
SECTIONS = [section_of(text) for text in PARTS]
TABLES = [section for section in SECTIONS if not section[0].startswith("plot ")]
PLOTS = [(title[5:], fields) for title, fields in SECTIONS if title.startswith("plot ")]
NAMES = {name: names_of(text) for name, text in re.findall(r"^@(\w+) = (.*)", BEGINNING, re.M)}
