# SPDX-License-Identifier: Apache-2.0
"""Writes the measured parts of docs/design and of guides from bench/results.

A page has tables between `<!-- figures:NAME:begin -->` and `<!-- figures:NAME:end -->`. SECTIONS
names the function that writes each table. A sentence has a figure between `<!-- value:NAME -->` and
`<!-- /value -->`. design_values.py computes the figures.
"""

import re

import coalesced_claims
import coalesced_tables
import design_values
import mpi_figures
import opencl_figures
import plugin_figures
import pool_figures
import pool_tables
import trace_figures
from bench_records import (
    NAMES,
    machines,
    origin,
    point_text,
    points,
    value_text,
    x_text,
)
from markdown import first_with, missing, table

MARK = re.compile(r"<!-- figures:([\w-]+):begin -->\n(.*?)<!-- figures:\1:end -->", re.DOTALL)
VALUE = re.compile(r"<!-- value:([\w-]+) -->(.*?)<!-- /value -->", re.DOTALL)


def cases_of(records):
    """The first machine on which coalescing was measured, GPUs first; None if there is none."""
    for machine in machines(records):
        cases = coalesced_tables.Cases(records, machine)
        if cases.records:
            return cases
    return None


# --- docs/design/coalescing.md


def claims(records):
    cases = cases_of(records)
    if cases is None:
        return missing("`coalesced_unit_bench`")
    found = cases.points("total", "linear", "none", "paper")
    everything = [point for series in found.values() for point in series.values()]
    lines = [
        f"Measured on {cases.machine}, {origin(everything)}, 12 × 1024 threads. A figure is the",
        f"speed-up over {NAMES[cases.platform]}, a quotient of mean times. *Yes* or *no*: whether",
        "the figures meet the condition.",
        "",
        *coalesced_claims.rows(cases),
        "",
    ]
    lines += [*map_costs(cases), "", *other_grids(cases)]
    return lines


GROUPS = {"warp": "warps", "block": "thread blocks"}


def map_costs(cases):
    """Claim H: the time with the map, divided by the time with headers, over CUDA's malloc."""
    rows = []
    for mode, mode_name in coalesced_tables.MODES.items():
        for group in GROUPS:
            texts = []
            for floats in (4, 24, 100, 400):
                pair = [
                    cases.value("total", "linear", mode, "paper", f"{cases.platform}+{way}", floats)
                    for way in (f"map-{group}", f"header-{group}")
                ]
                texts.append(value_text(pair[0] / pair[1]) if all(pair) else "–")
            rows.append([f"{GROUPS[group]}, {mode_name}", *texts])
    head = ["H: all four phases, map ÷ header", *(f"{n} floats" for n in (4, 24, 100, 400))]
    yield from table(head, rows)


def other_grids(cases):
    """Claim O: other numbers of thread blocks."""
    grids = {"paper": "12 thread blocks", "24": "24", "48": "48", "96": "96"}
    grids["full"] = "one a multiprocessor"
    rows = []
    for mode, mode_name in coalesced_tables.MODES.items():
        texts = []
        for grid in grids:
            pair = [
                cases.value("total", "linear", mode, grid, name, 100)
                for name in (cases.platform, "bump")
            ]
            texts.append(value_text(pair[0] / pair[1]) if all(pair) else "–")
        rows.append([mode_name, *texts])
    head = [f"O: {NAMES[cases.platform]} ÷ floor, all four phases, 100 floats", *grids.values()]
    yield from table(head, rows)


def coalescing_cost(records):
    cases = cases_of(records)
    if cases is None:
        return missing("`coalesced_unit_bench`")
    lines = [f"On {cases.machine}:", "", *coalesced_tables.goals(cases)]
    rows, median = [], "median"
    for mode, mode_name in coalesced_tables.MODES.items():
        sums = []
        texts = []
        for phase in ("allocate", "free"):
            pair = [
                cases.value(phase, "linear", mode, "paper", f"quarry+{way}", 400, statistic=median)
                for way in ("dynamic", "header-warp")
            ]
            if not all(pair):
                continue
            sums.append(pair)
            texts += [*map(value_text, pair), value_text(pair[0] / pair[1])]
        if len(sums) == 2:
            quotient = sum(pair[0] for pair in sums) / sum(pair[1] for pair in sums)
            rows.append([mode_name, *texts, value_text(quotient)])
    head = ["400 floats over Quarry, cycles (median)"]
    for phase in ("malloc", "free"):
        head += [f"{phase}: {column}" for column in ("dynamic", "static", "÷")]
    return [*lines, *table([*head, "both: ÷"], rows)]


# --- docs/design/lane_arrays.md


def lane_arrays(records):
    """The speed-up of interleaved arrays over contiguous ones."""
    rows = []
    machine = first_with(records, ["coalesced/lane_array/work"])
    for workload in ("linear", "quadratic"):
        for threads in (12_288, 135_168):
            texts = []
            for floats in (25, 100, 400):
                times = [
                    points(
                        records,
                        machine,
                        "coalesced/lane_array/work",
                        selection={
                            "workload": workload,
                            "threads": threads,
                            "floats": floats,
                            "layout": layout,
                        },
                    )
                    .get("quarry", {})
                    .get(None)
                    for layout in ("contiguous", "interleaved")
                ]
                is_measured = all(point and point.median for point in times)
                texts.append(value_text(times[0].median / times[1].median) if is_measured else "–")
            if set(texts) != {"–"}:
                rows.append([f"{workload}, {threads:,} threads", *texts])
    head = [f"{machine}: work on contiguous arrays ÷ on interleaved ones"]
    head += ["25 floats", "100 floats", "400 floats"]
    return list(table(head, rows)) if rows else missing("`coalesced_lane_array_bench`")


# --- docs/design/heap.md


def heap_memory(records):
    lines, rows, everything = [], [], []
    for machine in machines(records):
        found = points(records, machine, "heap/init/metadata", "heap_bytes").get("quarry", {})
        device_memory = points(records, machine, "heap/init/device_memory", "heap_bytes").get(
            "quarry", {}
        )
        for size, point in found.items():
            excess = device_memory.get(size)
            text = "–" if excess is None else f"{100 * excess.median:.2f} %"
            rows.append([x_text("bytes", size), f"{100 * point.median:.2f} %", text, machine])
            everything.append(point)
    if rows:
        head = ["heap", "metadata", "device memory taken beyond the heap's size", "machine"]
        lines += [f"Metadata, as a share of the heap, {origin(everything)}:", ""]
        lines += table(head, rows)
    else:
        lines += missing("`heap_init_bench` (metadata)")
    return [*lines, "", *requested_shares(records)]


def size_text(size):
    """A size as x_text formats it, and `8 MiB + 1`."""
    if size % (1 << 20) == 1:
        return f"{x_text('bytes', size - 1)} + 1"
    return x_text("bytes", size)


def requested_shares(records):
    """The requested share of a full heap, by size, with a column for each machine."""
    benches = ("heap/utilisation/share", "heap/waste/share")
    found = {
        machine: {
            size: point
            for bench in benches
            for size, point in points(records, machine, bench, "bytes").get("quarry", {}).items()
        }
        for machine in machines(records)
    }
    found = {machine: series for machine, series in found.items() if series}
    if not found:
        return missing("`heap_utilisation_bench`")
    rows = []
    for size in sorted({size for series in found.values() for size in series}):
        computed = None
        for machine in found:
            computed = computed or points(
                records, machine, "heap/waste/by_size_classes", "bytes", {"bytes": size}
            ).get("quarry", {}).get(size)
        texts = [
            (
                f"{point_text(series[size])} ({x_text('bytes', series[size].params['heap_bytes'])})"
                if size in series
                else "–"
            )
            for series in found.values()
        ]
        rows.append([size_text(size), point_text(computed) if computed else "–", *texts])
    everything = [point for series in found.values() for point in series.values()]
    head = ["size", "by the size classes", *(f"measured, {machine} (heap)" for machine in found)]
    return [
        "Requested bytes in a full heap, divided by the heap's bytes, for sizes of a class and for",
        f"the sizes that fit worst, {origin(everything)}:",
        "",
        *table(head, rows),
    ]


HARDENED = [  # title, benchmark, sizes
    ("malloc", "heap/single/malloc", (16, 256, 4096)),
    ("free", "heap/single/free", (16, 256, 4096)),
    ("malloc, mixed sizes from 16 B up to", "heap/mixed/malloc", (256, 4096)),
    ("free, mixed sizes from 16 B up to", "heap/mixed/free", (256, 4096)),
    ("churn from 16 B up to", "heap/churn", (256, 1024, 4096)),
]


def hardened_mode(records):
    lines = []
    for machine in machines(records):
        rows, everything = [], []
        for title, bench, sizes in HARDENED:
            found = points(records, machine, bench, "bytes")
            for size, point in found.get("quarry-hardened", {}).items():
                if size not in sizes:
                    continue
                plain = found.get("quarry", {}).get(size)
                is_measured = plain and plain.median and point.median
                ratio = f"{100 * point.median / plain.median:.3g} %" if is_measured else "–"
                row_title = f"{title} {x_text('bytes', size)}" if "up to" in title else ""
                row_title = row_title or f"{title}, {x_text('bytes', size)}"
                rows.append([row_title, point_text(plain), point_text(point), ratio])
                everything.append(point)
        if rows:
            head = [f"{machine}, Mops/s", "as built by default", "hardened", "left"]
            lines += [*table(head, rows), "", f"Hardened: {origin(everything)}.", ""]
    return lines[:-1] or missing("`heap_single_hardened_bench` and `heap_churn_hardened_bench`")


# The heap's goals, which were set before the measurements: title, benchmark, sizes, goals.
HEAP_GOALS = [
    ("malloc, one size, after a reset", "heap/single/malloc", (16, 64, 1024, 4096), (60_000,)),
    ("free, one size", "heap/single/free", (16, 64, 1024, 4096), (120_000,)),
    ("free, one size, heap never reset", "heap/warm/free", (16, 32), (120_000,)),
    ("malloc, heap never reset", "heap/warm/malloc", (64, 1024, 4096), (60_000,)),
    ("malloc, new heap", "heap/state/fresh", (16, 4096), (60_000,)),
    ("churn from 16 B", "heap/churn", (256, 4096), (6000, 4000)),
    ("time to fill a freed half again", "heap/reuse/fill", (64, 256, 1024, 4096), (10, 3, 1, 0.3)),
]


def heap_goals(records):
    """The goals, and the measurements of the first machine that has them."""
    for machine in machines(records):
        rows, everything = [], []
        for title, bench, sizes, goals in HEAP_GOALS:
            found = points(records, machine, bench, "bytes").get("quarry", {})
            shown = [found[size] for size in sizes if size in found]
            if len(shown) < len(sizes):
                continue
            unit, is_time = shown[0].unit, shown[0].unit == "ms"
            limits = goals if len(goals) > 1 else goals * len(sizes)
            met = [
                point.median <= limit if is_time else point.median >= limit
                for point, limit in zip(shown, limits)
            ]
            rows.append(
                [
                    f"{title}: {' / '.join(x_text('bytes', size) for size in sizes)}",
                    f"{'≤' if is_time else '≥'} {' / '.join(f'{g:,}' for g in goals)} {unit}",
                    f"{' / '.join(map(point_text, shown))} {unit}",
                    "yes" if all(met) else "in part" if any(met) else "no",
                ]
            )
            everything += shown
        if rows:
            head = [f"{machine}, {origin(everything)}", "goal", "measured", "met"]
            return list(table(head, rows))
    return missing("`heap_single_bench`")


SECTIONS = {
    "docs/design/coalescing.md": {"claims": claims, "cost": coalescing_cost},
    "docs/design/heap.md": {
        "memory": heap_memory,
        "hardened": hardened_mode,
        "goals": heap_goals,
    },
    "docs/design/lane_arrays.md": {"lane_arrays": lane_arrays},
    "docs/design/pools.md": {
        "pairs": pool_figures.pairs,
        "strategies": pool_figures.strategies,
    },
    "docs/design/pool_costs.md": {
        "excess": pool_figures.excess,
        "bookkeeping": pool_figures.bookkeeping,
        "threads": pool_figures.threads,
        "mesh": pool_figures.mesh,
        "arrays": pool_tables.arrays,
        "instructions": pool_tables.instructions,
    },
    "docs/design/mpi.md": mpi_figures.SECTIONS,
    "docs/design/mpi_analysis.md": mpi_figures.ANALYSIS,
    "docs/design/mpi_programs.md": mpi_figures.OTHERS,
    "docs/design/opencl.md": opencl_figures.SECTIONS,
    "docs/design/registry.md": {},
    "docs/design/simt.md": {},
    "docs/design/streams.md": {},
    "docs/design/traces.md": trace_figures.SECTIONS | plugin_figures.DESIGN_SECTIONS,
}
GUIDES = {"docs/guide/pytorch.md": plugin_figures.SECTIONS}


def rewritten(path, text, records):
    """The page with new measured parts. Exits if the page lacks a part or has an unknown one."""
    wanted = (SECTIONS | GUIDES)[path]
    found = [match.group(1) for match in MARK.finditer(text)]
    if sorted(found) != sorted(wanted):
        raise SystemExit(f"error: {path} has the parts {found}; it must have {list(wanted)}")

    def write(match):
        name = match.group(1)
        lines = "\n".join(wanted[name](records))
        return f"<!-- figures:{name}:begin -->\n{lines}\n<!-- figures:{name}:end -->"

    def write_value(match):
        name = match.group(1)
        if name not in design_values.VALUES:
            raise SystemExit(f"error: {path} shows the value '{name}'; design_values.py has none")
        said = design_values.VALUES[name](records)
        return f"<!-- value:{name} -->{said}<!-- /value -->"

    return VALUE.sub(write_value, MARK.sub(write, text))
