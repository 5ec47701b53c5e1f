# SPDX-License-Identifier: Apache-2.0
"""The measured parts of docs/design, from bench/results.

A page has them between `<!-- figures:NAME:begin -->` and `<!-- figures:NAME:end -->`; SECTIONS says
which function writes which.
"""

import re

import coalesced_tables
import pool_figures
from bench_records import (
    NAMES,
    machines,
    origin,
    point_text,
    points,
    value_text,
    x_text,
)
from markdown import missing, table

MARK = re.compile(r"<!-- figures:([\w-]+):begin -->\n(.*?)<!-- figures:\1:end -->", re.DOTALL)


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
    everything = [point for of in found.values() for point in of.values()]
    lines = [
        f"Measured on {cases.machine}, {origin(everything)}:",
        f"speed-ups over {NAMES[cases.platform]} of the ways over it, quotients of mean times,",
        "12 × 1024 threads.",
        "",
        *coalesced_tables.claim_rows(cases),
        "",
    ]
    lines += [*map_costs(cases), "", *other_grids(cases)]
    return lines


def map_costs(cases):
    """Claim H: what the map takes beside headers, over CUDA's malloc."""
    rows = []
    for mode, mode_name in coalesced_tables.MODES.items():
        for group in ("warp", "block"):
            texts = []
            for floats in (4, 24, 100, 400):
                pair = [
                    cases.value("total", "linear", mode, "paper", f"{cases.platform}+{way}", floats)
                    for way in (f"map-{group}", f"header-{group}")
                ]
                texts.append(value_text(pair[0] / pair[1]) if all(pair) else "–")
            rows.append([f"{group}s, {mode_name}", *texts])
    head = ["H: all four phases, map ÷ header", *(f"{n} floats" for n in (4, 24, 100, 400))]
    yield from table(head, rows)


def other_grids(cases):
    """Claim O: the same with other numbers of blocks."""
    grids = {"paper": "12 blocks", "24": "24", "48": "48", "96": "96"}
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
            both = sum(pair[0] for pair in sums) / sum(pair[1] for pair in sums)
            rows.append([mode_name, *texts, value_text(both)])
    head = ["400 floats over Quarry, cycles (median)"]
    for phase in ("malloc", "free"):
        head += [f"{phase}: {what}" for what in ("dynamic", "static", "÷")]
    lines += [*table([*head, "both: ÷"], rows), ""]
    lines += lane_arrays(records, cases.machine)
    return lines


def lane_arrays(records, machine):
    """How much faster interleaved arrays are than contiguous ones."""
    rows = []
    for workload in ("linear", "quadratic"):
        for threads in (12_288, 135_168):
            texts = []
            for floats in (25, 100, 400):
                times = [
                    points(
                        records,
                        machine,
                        "coalesced/lane_array/work",
                        where={
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
                both = all(point and point.median for point in times)
                texts.append(value_text(times[0].median / times[1].median) if both else "–")
            if set(texts) != {"–"}:
                rows.append([f"{workload}, {threads:,} threads", *texts])
    head = ["`lane_array`: work on contiguous arrays ÷ on interleaved ones"]
    return list(table([*head, "25 floats", "100 floats", "400 floats"], rows)) if rows else []


# --- docs/design/heap.md


def heap_memory(records):
    lines, rows, everything = [], [], []
    for machine in machines(records):
        found = points(records, machine, "heap/init/metadata", "heap_bytes").get("quarry", {})
        taken = points(records, machine, "heap/init/device_memory", "heap_bytes").get("quarry", {})
        for size, point in found.items():
            beyond = taken.get(size)
            text = "–" if beyond is None else f"{100 * beyond.median:.2f} %"
            rows.append([x_text("bytes", size), f"{100 * point.median:.2f} %", text, machine])
            everything.append(point)
    if rows:
        head = ["heap", "metadata", "device memory taken beyond the heap's size", "machine"]
        lines += [f"Metadata, as a share of the heap, {origin(everything)}:", ""]
        lines += table(head, rows)
    else:
        lines += missing("`heap_init_bench` (metadata)")
    return [*lines, "", *shares_handed_out(records)]


def size_text(size):
    """As x_text, and `8 MiB + 1`."""
    if size % (1 << 20) == 1:
        return f"{x_text('bytes', size - 1)} + 1"
    return x_text("bytes", size)


def shares_handed_out(records):
    """What of a full heap was asked for, by size; each machine in a column of its own."""
    benches = ("heap/utilisation/share", "heap/waste/share")
    found = {
        machine: {
            size: point
            for bench in benches
            for size, point in points(records, machine, bench, "bytes").get("quarry", {}).items()
        }
        for machine in machines(records)
    }
    found = {machine: of for machine, of in found.items() if of}
    if not found:
        return missing("`heap_utilisation_bench`")
    rows = []
    for size in sorted({size for of in found.values() for size in of}):
        computed = None
        for machine in found:
            computed = computed or points(
                records, machine, "heap/waste/by_size_classes", "bytes", {"bytes": size}
            ).get("quarry", {}).get(size)
        texts = [
            f"{point_text(of[size])} ({x_text('bytes', of[size].params['heap_bytes'])})"
            if size in of
            else "–"
            for of in found.values()
        ]
        rows.append([size_text(size), point_text(computed) if computed else "–", *texts])
    everything = [point for of in found.values() for point in of.values()]
    head = ["size", "by the size classes", *(f"measured, {machine} (heap)" for machine in found)]
    return [
        "Bytes asked for in a full heap, divided by the heap's, for sizes of a class and for those",
        f"that fit worst, {origin(everything)}:",
        "",
        *table(head, rows),
    ]


HARDENED = [
    ("malloc", "heap/single/malloc"),
    ("free", "heap/single/free"),
    ("malloc, mixed sizes from 16 B up to", "heap/mixed/malloc"),
    ("free, mixed sizes from 16 B up to", "heap/mixed/free"),
    ("churn from 16 B up to", "heap/churn"),
]


def hardened_mode(records):
    lines = []
    for machine in machines(records):
        rows, everything = [], []
        for title, bench in HARDENED:
            found = points(records, machine, bench, "bytes")
            for size, point in found.get("quarry-hardened", {}).items():
                plain = found.get("quarry", {}).get(size)
                both = plain and plain.median and point.median
                ratio = f"{100 * point.median / plain.median:.3g} %" if both else "–"
                what = f"{title} {x_text('bytes', size)}" if "up to" in title else ""
                what = what or f"{title}, {x_text('bytes', size)}"
                rows.append([what, point_text(plain), point_text(point), ratio])
                everything.append(point)
        if rows:
            head = [f"{machine}, Mops/s", "as built by default", "hardened", "left"]
            lines += [*table(head, rows), "", f"Hardened: {origin(everything)}.", ""]
    return lines[:-1] or missing("`heap_single_hardened_bench` and `heap_churn_hardened_bench`")


# --- docs/design/pools.md


SECTIONS = {
    "docs/design/coalescing.md": {"claims": claims, "cost": coalescing_cost},
    "docs/design/heap.md": {"memory": heap_memory, "hardened": hardened_mode},
    "docs/design/pools.md": {
        "pairs": pool_figures.pairs,
        "strategies": pool_figures.strategies,
        "excess": pool_figures.excess,
        "bookkeeping": pool_figures.bookkeeping,
        "threads": pool_figures.threads,
        "mesh": pool_figures.mesh,
    },
}


def rewritten(path, text, records):
    """The page with its measured parts anew. Exits if it lacks one, or has one too many."""
    wanted = SECTIONS[path]
    found = [match.group(1) for match in MARK.finditer(text)]
    if sorted(found) != sorted(wanted):
        raise SystemExit(f"error: {path} has the parts {found}; it must have {list(wanted)}")

    def write(match):
        name = match.group(1)
        lines = "\n".join(wanted[name](records))
        return f"<!-- figures:{name}:begin -->\n{lines}\n<!-- figures:{name}:end -->"

    return MARK.sub(write, text)
