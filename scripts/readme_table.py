#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the medians of bench/results as tables.

README.md gets the table of Quarry and its peers (peers.py), between figures:begin and figures:end.
docs/plots/README.md gets the main figures, then all figures with their plots.
docs/plots/coalescing.md gets the figures of coalesced allocation. docs/design and some guides get
their measured parts (design_figures.py). With --check the script writes nothing, and exits with 1
if a file is not up to date.
"""

import argparse
import sys
from pathlib import Path

from bench_records import (
    ALLOCATORS,
    PLOTS,
    RESULTS,
    ROOT,
    failures,
    machines,
    origin,
    point_text,
    read_records,
    x_text,
)
import coalesced_tables
import design_figures
import heuristic_figures
import opencl_figures
import peers
import pool_figures
from markdown import table
from figures import FIGURES, HOST_CASES, HOST_NAMES, HOST_ROWS, ROWS

BEGIN, END = "<!-- figures:begin -->", "<!-- figures:end -->"
HANGS = (
    "the kernel did not end when it was tried; the benchmarks now leave it out "
    "(bench/allocators.hpp)"
)


def heading(allocator):
    names = opencl_figures.NAMES | ALLOCATORS | HOST_NAMES
    name = names.get(allocator, allocator).split(" (")[0]
    return f"**{name}**" if allocator == "quarry" else name


def notes(found):
    """One note for all points that hang."""
    hung = {point.error for point in found} & {"hangs"}
    return [f"`hangs`: {HANGS}."] if hung else []


def row_table(rows, allocators):
    """A table of `rows`, which are pairs of a Row and its points."""
    return table(
        ["", "unit", *map(heading, allocators)],
        [
            [
                row.title,
                next(point.unit for point in found.values()).replace("us", "µs"),
                *(point_text(found.get(name)) for name in allocators),
            ]
            for row, found in rows
        ],
    )


def host_table(records, machine):
    """The cost of host pools on a machine."""
    rows = []
    for row in HOST_ROWS:
        found = pool_figures.runs(records, machine, row.bench, row.selection)
        if found:
            rows.append(
                (row, {name: found_runs.median_point() for name, found_runs in found.items()})
            )
    if not rows:
        return []
    allocators = [name for name in HOST_NAMES if any(name in found for _, found in rows)]
    everything = [found[name] for _, found in rows for name in allocators if name in found]
    memory = "device" if "cudaMalloc" in allocators else "host"
    lines = [
        "",
        f"Host pools (`fast_fit`) on {machine}, {memory} memory. "
        "A pair replaces a random allocation:",
        "one deallocation, then one allocation. "
        "Lookups are of an allocation's first byte. Medians,",
        f"{origin(everything)}.",
        "",
    ]
    return lines + list(row_table(rows, allocators))


def main_figures(records):
    """The main figures of docs/plots/README.md."""
    if not records:
        return ["No figures yet: `make bench` measures this machine."]
    machine = machines(records)[0]
    rows = [(row, row.points(records, machine)) for row in ROWS]
    rows = [(row, found) for row, found in rows if found]
    everything = [point for _, found in rows for point in found.values()]
    allocators = [name for name in ALLOCATORS if any(name in found for _, found in rows)]
    lines = [
        f"Medians on {machine}, {origin(everything)}; 2^20 threads and a heap of 8 GiB, reset",
        "before each round, unless said otherwise. "
        "The floor is one warp-aggregated `atomicAdd`, and",
        "never frees.",
        "",
    ]
    lines += row_table(rows, allocators)
    lines += ["", *notes(everything)]
    for host in machines(records):
        lines += host_table(records, host)
    link = "([more](../design/pools.md#cost))"
    lines += ["", f"Time and memory of each placement of a host pool {link}:", ""]
    lines += pool_figures.strategies(records, HOST_CASES[1:], ((80, 1),))
    return lines


def figure_section(figure, machine, records):
    """A plot, and tables of the medians that it shows."""
    panels = [(panel, panel.points(records, machine)) for panel in figure.panels]
    everything = [p for _, found in panels for series in found.values() for p in series.values()]
    if not any(point.median is not None for point in everything):
        return
    stem = f"{figure.name}.{machine}"
    yield f"### {figure.title}"
    yield ""
    yield f"[![{figure.title}]({stem}.png)]({stem}.svg)"
    yield ""
    yield f"Medians, {origin(everything)}. {' '.join([*notes(everything), figure.note])}".rstrip()
    yield ""
    for panel, found in panels:
        xs = list(dict.fromkeys(x for series in found.values() for x in series))
        if panel.bench:
            xs.sort()
        if not xs:
            continue
        units = {point.unit for series in found.values() for point in series.values()}
        unit = units.pop().replace("us", "µs")
        head = [f"{panel.title} ({unit})", *(x_text(panel.x, x) for x in xs)]
        rows = [
            [heading(name), *(point_text(series.get(x)) for x in xs)]
            for name, series in found.items()
        ]
        yield from table(head, rows)
        yield ""


def heuristic_section(machine, records):
    """The plot of the published heuristics. Its tables are in a design page."""
    if not heuristic_figures.sweeps(records, machine):
        return
    stem = f"{heuristic_figures.NAME}.{machine}"
    yield f"### {heuristic_figures.TITLE}"
    yield ""
    yield f"[![{heuristic_figures.TITLE}]({stem}.png)]({stem}.svg)"
    yield ""
    tables = "../design/traces.md#the-posters-figures"
    yield f"[Traces]({tables}) has the tables, and what the plot shows."
    yield ""


def page(records):
    """docs/plots/README.md."""
    lines = [
        "# Figures",
        "",
        "`make bench` measures and writes `bench/results`; "
        "`make plots` writes this page from them. The",
        "comment at the top of each program in `bench/` says what the program measures. "
        "Figures of CPU",
        "threads are of the same programs with fewer threads and smaller heaps. "
        "They were measured on a",
        "virtual machine that was busy with other work. "
        "The whiskers show how busy; small differences",
        "mean nothing.",
        "",
        "[Coalesced allocation](coalescing.md) has a page of its own.",
        "",
        "## Main figures",
        "",
        *main_figures(records),
    ]
    failed = failures(records)
    for machine in machines(records):
        lines += ["", f"## {machine}", ""]
        for program, reason in sorted(failed.get(machine, {}).items()):
            lines += [f"`{program}` failed: {reason}.", ""]
        for figure in [*FIGURES, *opencl_figures.OPENCL_FIGURES]:
            lines += figure_section(figure, machine, records)
        lines += heuristic_section(machine, records)
    return "\n".join(lines).rstrip() + "\n"


def rewritten(text, lines):
    """The text of README.md with `lines` between its marks."""
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        sys.exit(f"error: README.md must hold one {BEGIN} and, after it, one {END}")
    head, tail = text.split(BEGIN)
    return head + "\n".join([BEGIN, "", *lines, "", END]) + tail.split(END)[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit with 1 if a table is out of date"
    )
    parser.add_argument(
        "--results", type=Path, default=RESULTS, help="folder of *.jsonl (bench/results)"
    )
    parser.add_argument("--readme", type=Path, default=ROOT / "README.md")
    parser.add_argument(
        "--plots", type=Path, default=PLOTS, help="folder of the plots (docs/plots)"
    )
    parser.add_argument(
        "--design", type=Path, default=ROOT / "docs" / "design", help="folder of the design pages"
    )
    options = parser.parse_args()
    if not options.readme.is_file():
        sys.exit(f"error: there is no {options.readme}")
    records = read_records(options.results)
    readme = options.readme.read_text(encoding="utf-8")
    wanted = {
        options.readme: rewritten(readme, peers.comparison_table(records)),
        options.plots / "README.md": page(records),
        options.plots / "coalescing.md": coalesced_tables.page(records),
    }
    pages = {name: options.design / Path(name).name for name in design_figures.SECTIONS}
    pages |= {name: ROOT / name for name in design_figures.GUIDES}
    for name, path in pages.items():
        text = path.read_text(encoding="utf-8")
        wanted[path] = design_figures.rewritten(name, text, records)
    for path, text in wanted.items():
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            print(f"-- {path}: up to date")
        elif options.check:
            sys.exit(f"error: {path} does not show {options.results}; run scripts/readme_table.py")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"-- {path}: written")


if __name__ == "__main__":
    main()
