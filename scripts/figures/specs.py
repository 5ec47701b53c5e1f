# SPDX-License-Identifier: Apache-2.0
"""Reads tables.txt: specifications of tables, and names with their titles, in their order."""

import re

from .records import ROOT

# The placements of pools, in the order of the library's table.
HEADER = ROOT / "include/quarry/host/pools/placements.hpp"
PLACEMENTS = re.findall(r'named_placement<[^{]*>\{\s*"(\w+)"', HEADER.read_text(encoding="utf-8"))
DEFAULT = PLACEMENTS[0]
OPTION = re.compile(r"(head|before|after|cell|common|machines|best|statistic|python): (.*)")


TEXT = (ROOT / "scripts/figures/tables.txt").read_text(encoding="utf-8")
VARIABLES = {"DEFAULT": DEFAULT} | dict(re.findall(r"^\$(\w+) = (.*)", TEXT, re.MULTILINE))


def with_variables(text):
    """The text without comments, and with the values of variables."""
    text = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"\n {6,}", " ", text)  # a line of plots.txt that continues another one
    return re.sub(r"\$(\w+)", lambda match: VARIABLES[match[1]], text)


def read(text):
    """{list: {name: title}}, and the tables as pairs of a place and {field: text}."""
    text = re.sub(r"\n  +", " ", text)
    lists, tables = re.findall(r"^@(\w+) = (.*)", text, re.MULTILINE), []
    names = {n: dict(each.split(": ", 1) for each in titles.split(" | ")) for n, titles in lists}
    for section in text.split("\n== ")[1:]:
        title, *lines = section.strip().splitlines()
        fields, part = {"rows": []}, "rows"
        for line in lines:
            option = OPTION.fullmatch(line)
            part = "columns" if line == "--" else part
            if line != "--":
                name, value = option.groups() if option else (part, line)
                fields.setdefault(name, []).append(value)
        tables.append((title, {name: "\n".join(values) for name, values in fields.items()}))
    return names, tables


NAMES, TABLES = read(with_variables(TEXT))
NAMES["strategies"] = (
    {name: f"pool, {name}" for name in PLACEMENTS}
    | {DEFAULT: f"**pool, {DEFAULT}** (the default)"}
    | NAMES["strategies"]
)
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
NAMES["traces_and_simulation"] = {"simulation": "trace of the poster's shape"} | NAMES["traces"]
