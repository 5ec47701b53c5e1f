# SPDX-License-Identifier: Apache-2.0
"""Writes the measured parts of docs/design/pool_costs.md that pool_figures.py does not write."""

from bench_records import Point, machines, origin, value_text
from markdown import missing, table

PATTERNS = {
    "grows": "grows",
    "refines-and-coarsens": "refines and coarsens",
    "wanders": "wanders",
    "bursts": "bursts",
    "one-peak": "one peak",
}
POLICIES = {
    "exact": "exact",
    "geometric-1.5": "geometric, by half",
    "geometric-2": "geometric, doubled",
    "hysteresis": "hysteresis",
    "history-16": "recorded history",
    "paged": "pages of its own",
}


def medians(records, machine, bench):
    """The medians of a benchmark, oldest first."""
    for record in records:
        if (
            record["machine"] == machine
            and record["bench"] == bench
            and record["params"].get("statistic", "median") == "median"
            and record["value"] is not None
        ):
            yield record


def point_of(record):
    return Point(date=record["date"], commit=record.get("commit") or "unknown")


def arrays(records):
    """The bytes that each growth policy copies and reserves, divided by the needed bytes."""
    lines = []
    for machine in machines(records):
        found, everything = {}, []
        for kind in ("copied", "held"):
            for record in medians(records, machine, f"host/field/{kind}_per_needed"):
                params = record["params"]
                found[kind, params["pattern"], params["policy"]] = record["value"]
                everything.append(point_of(record))
        rows = []
        for pattern, title in PATTERNS.items():
            cells = []
            for policy in POLICIES:
                pair = [found.get((kind, pattern, policy)) for kind in ("copied", "held")]
                is_measured = None not in pair
                cells.append(f"{pair[0]:.2f}; {pair[1]:.2f}" if is_measured else "–")
            rows.append([title, *cells])
        if everything:
            head = [f"{machine}: copied; reserved", *POLICIES.values()]
            lines += [*table(head, rows), "", f"{origin(everything)}.", ""]
    return lines[:-1] or missing("`field_growth_bench`")


def instructions(records):
    """The instructions of one operation, which callgrind counted."""
    lines = []
    for machine in machines(records):
        found = {r["params"]["case"]: r for r in medians(records, machine, "host/instructions")}
        if found:
            rows = [
                [case.replace("look-up", "lookup"), value_text(record["value"])]
                for case, record in found.items()
            ]
            everything = [point_of(record) for record in found.values()]
            lines += [*table([machine, "instructions"], rows), "", f"{origin(everything)}.", ""]
    return lines[:-1] or missing("`host_instructions_bench`")
