#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the medians of bench/results into README.md, between its figures:begin and figures:end.

A section for each machine: tables of allocators by size for heap/single/malloc and
heap/single/free, then a list of the rest, in which a long row is thinned out (the plots show all of
it). --check writes nothing, and exits with 1 if README.md is not up to date.
"""

import argparse
import sys
from pathlib import Path

from bench_records import RESULTS, ROOT, charts, failures, plain_text, read_records, value_text

BEGIN, END = "<!-- figures:begin -->", "<!-- figures:end -->"
TABLES = {"heap/single/malloc": "malloc, one size", "heap/single/free": "free, one size"}


def cell(chart, label, x):
    value = chart.series[label].get(x, {}).get("median")
    return value_text(value) if value is not None else chart.errors.get((label, x), "–")


def xs_of(chart):
    return sorted({x for points in chart.series.values() for x in points if x is not None})


def table(chart, title):
    xs = xs_of(chart)
    yield f"{title}, {chart.unit} ({chart.origin})"
    yield ""
    yield "| allocator | " + " | ".join(plain_text(chart.x_name, x) for x in xs) + " |"
    yield "|---|" + "---:|" * len(xs)
    for label in chart.series:
        name = f"**{label}**" if label.startswith("quarry") else label
        yield f"| {name} | " + " | ".join(cell(chart, label, x) for x in xs) + " |"
    yield ""


def spread(values, most):
    """At most `most` of them, evenly spaced, with both ends."""
    if len(values) <= most:
        return values
    return [values[round(i * (len(values) - 1) / (most - 1))] for i in range(most)]


def items(chart):
    """A list item for a benchmark: each allocator's median, or some medians along what varies."""
    along = f", by {chart.x_name}" if chart.x_name else ""
    yield f"- `{chart.bench}`, {chart.unit}{along} ({chart.origin})"
    xs = spread(xs_of(chart), 6)
    for label, points in chart.series.items():
        if chart.x_name:
            figures = "; ".join(
                f"{plain_text(chart.x_name, x)}: {cell(chart, label, x)}" for x in xs if x in points
            )
        else:
            figures = cell(chart, label, None)
        yield f"  - {label}: {figures}"


def section(records):
    """The lines between the markers."""
    all_charts, failed = charts(records), failures(records)
    if not all_charts and not failed:
        return ["No figures yet: `make bench` measures this machine."]
    lines = ["Medians, from `bench/results` by `scripts/readme_table.py`.", ""]
    for machine in sorted({chart.machine for chart in all_charts} | set(failed)):
        lines += [f"### {machine}", ""]
        here = {chart.bench: chart for chart in all_charts if chart.machine == machine}
        for bench, title in TABLES.items():
            if bench in here and here[bench].x_name:
                lines += table(here.pop(bench), title)
        for chart in here.values():
            lines += items(chart)
        for program, why in sorted(failed.get(machine, {}).items()):
            lines.append(f"- `{program}` failed: {why}")
        if lines[-1]:
            lines.append("")
    return lines[:-1]


def rewritten(text, lines):
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        sys.exit(f"error: README.md must hold one {BEGIN} and, after it, one {END}")
    head, rest = text.split(BEGIN)
    return head + "\n".join([BEGIN, *lines, END]) + rest.split(END)[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--check",
        action="store_true",
        help="write nothing; exit with 1 if README.md is not up to date",
    )
    parser.add_argument(
        "--results", type=Path, default=RESULTS, help="folder of *.jsonl (bench/results)"
    )
    parser.add_argument("--readme", type=Path, default=ROOT / "README.md")
    options = parser.parse_args()
    if not options.readme.is_file():
        sys.exit(f"error: there is no {options.readme}")
    text = options.readme.read_text(encoding="utf-8")
    wanted = rewritten(text, section(read_records(options.results)))
    if wanted == text:
        print(f"-- {options.readme.name}: figures up to date")
    elif options.check:
        sys.exit(
            f"error: the figures in {options.readme.name} are not those of {options.results}; "
            "run scripts/readme_table.py"
        )
    else:
        options.readme.write_text(wanted, encoding="utf-8")
        print(f"-- {options.readme.name}: figures rewritten")


if __name__ == "__main__":
    main()
