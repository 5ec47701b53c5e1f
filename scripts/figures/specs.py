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
FIELDS = "head|before|after|cell|common|machines|best|statistic|panels_a_row|panels|legend|note"


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
    title, *lines = text.strip().splitlines()
    fields, part = {"rows": []}, "rows"
    for line in lines:
        if line == "--":
            part = "columns"
            continue
        field = re.fullmatch(f"({FIELDS}): (.*)", line)
        name, value = field.groups() if field else (part, line)
        fields.setdefault(name, []).append(value)
    return title, {name: "\n".join(values) for name, values in fields.items()}


BEGINNING, *PARTS = text_of_specs().split("\n== ")
SECTIONS = [section_of(text) for text in PARTS]
TABLES = [section for section in SECTIONS if not section[0].startswith("plot ")]
PLOTS = [(title[5:], fields) for title, fields in SECTIONS if title.startswith("plot ")]
NAMES = {name: names_of(text) for name, text in re.findall(r"^@(\w+) = (.*)", BEGINNING, re.M)}
# The names of ways of coalescing in the records are <upstream>+<way>.
HEAPS, WAYS = NAMES["heaps"], NAMES["ways"]
COMBINED = [(f"{upstream}+{way}", way, upstream) for upstream in ("quarry", "cuda") for way in WAYS]
NAMES["coalesced"] = {name: HEAPS[name] for name in HEAPS if name != "quarry-hardened"} | {
    name: f"{WAYS[way]} / {HEAPS[upstream]}" for name, way, upstream in COMBINED
}
# Percentages and numbers of blocks of the poster's heuristics, in its words: `Blocks(2) HWM`.
PERCENTS, BLOCKS = (50, 75, 90, 100), (2, 3, 5, 7, 12)
VARIANTS = {"": "Blocks", "+hwm": "Blocks, HWM", "+cbg": "Blocks, CBG"}
NAMES["settings"] = {f"percent:{n}": f"Percent({n})" for n in PERCENTS} | {
    f"blocks:{n}{v}": f"Blocks({n}) {v[1:].upper()}".rstrip() for v in VARIANTS for n in BLOCKS
}
