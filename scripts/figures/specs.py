# SPDX-License-Identifier: Apache-2.0
"""Reads tables.txt: specifications of tables, and names with their titles, in their order."""

import re

from .records import ROOT

# The placements of pools, in the order of the library's table.
HEADER = ROOT / "include/quarry/host/pools/placements.hpp"
PLACEMENTS = re.findall(r'named_placement<[^{]*>\{\s*"(\w+)"', HEADER.read_text(encoding="utf-8"))
DEFAULT = PLACEMENTS[0]
OPTION = re.compile(r"(head|before|after|cell|common|machines|best|statistic|python): (.*)")


def read(text):
    """The variables, {list: {name: title}}, and the tables as pairs of a place and {field: text}."""
    text = re.sub(r"\n  +", " ", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE))
    variables = {"DEFAULT": DEFAULT} | dict(re.findall(r"^\$(\w+) = (.*)", text, re.MULTILINE))
    text = re.sub(r"\$(\w+)", lambda match: variables[match[1]], text)
    names, tables = {}, []
    for section in text.split("\n== ")[1:]:
        title, *lines = section.strip().splitlines()
        if title.startswith("names "):
            names[title[6:]] = dict(line.split(": ", 1) for line in lines)
            continue
        fields, part = {"rows": []}, "rows"
        for line in lines:
            option = OPTION.fullmatch(line)
            part = "columns" if line == "--" else part
            if line != "--":
                name, value = option.groups() if option else (part, line)
                fields.setdefault(name, []).append(value)
        tables.append((title, {name: "\n".join(values) for name, values in fields.items()}))
    return variables, names, tables


VARIABLES, NAMES, TABLES = read((ROOT / "scripts/figures/tables.txt").read_text(encoding="utf-8"))
NAMES["strategies"] = (
    {name: f"pool, {name}" for name in PLACEMENTS}
    | {DEFAULT: f"**pool, {DEFAULT}** (the default)"}
    | NAMES["strategies"]
)
# The names of ways of coalescing in the records are <upstream>+<way>.
HEAPS, WAYS, UPSTREAMS = NAMES["heaps"], NAMES["ways"], ("quarry", "cuda")
COMBINED = [(f"{upstream}+{way}", way, upstream) for upstream in UPSTREAMS for way in WAYS]
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
