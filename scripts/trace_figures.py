# SPDX-License-Identifier: Apache-2.0
"""The measured parts of docs/design/traces.md."""

from bench_records import machines, origin, points, value_text
from heuristic_figures import REAL_TRACES as TRACES
from heuristic_figures import SECTIONS as HEURISTICS
from markdown import first_with, missing, table

WAYS = {
    "requested": "in use: nothing needs less",
    "pytorch": "PyTorch, as recorded",
    "fast": "a pool with defaults",
    "streams": "a stream pool with defaults",
    "tuned": "tuned pool",
    "separated": "separated pools",
    "plan": "plan",
}


def peaks(records):
    """The peak of the reserved memory of each way to serve a trace."""
    bench = "trace/peak"
    machine = first_with(records, [bench])
    if machine is None:
        return missing("`trace_peaks_bench`")
    found = points(records, machine, bench, "trace")
    rows = []
    for way, title in WAYS.items():
        row = [title]
        for trace in TRACES:
            point, least = found[way][trace], found["requested"][trace]
            excess = 100 * (point.median / least.median - 1)
            share = "" if way == "requested" else f" (+{excess:.1f} %)"
            row.append(f"{value_text(point.median / 2**20)}{share}")
        rows.append(row)
    everything = [point for series in found.values() for point in series.values()]
    head = ["MiB at the peak", *TRACES.values()]
    return [f"{origin(everything)}:", "", *table(head, rows)]


SEPARATIONS = {
    "one pool": "one pool",
    "size": "rule: size",
    "call_site": "rule: call site",
    "call_site_and_size": "rule: call site and size",
    "tree": "decision tree, 8 leaves",
    "deep tree": "decision tree, no limit",
}


def separations(records):
    """The peak of the second half of a trace, by what was learnt from the first half."""
    bench = "trace/separate"
    machine = first_with(records, [bench])
    if machine is None:
        return ["Not measured yet: `bench/trace_separation.py`."]
    found = points(records, machine, bench, "trace")
    rows = [
        [title, *[value_text(found[way][trace].median / 2**20) for trace in TRACES]]
        for way, title in SEPARATIONS.items()
    ]
    everything = [point for series in found.values() for point in series.values()]
    head = ["MiB at the peak of the second half", *TRACES.values()]
    return [f"{origin(everything)}:", "", *table(head, rows)]


RATES = [
    ("replay, default pool, events in memory", "trace/replay", {"strategy": "fast"}),
    ("replay, best fit, events in memory", "trace/replay", {"strategy": "lowest-best-fit"}),
    ("replay, stitched pool, events in memory", "trace/replay", {"strategy": "stitched"}),
    ("read a file and replay it, default pool", "trace/file", {"strategy": "fast"}),
    ("read a file", "trace/read", {}),
    ("write a file", "trace/write", {}),
    ("tune, all candidates, on two cores", "trace/tune", {}),
]


def rates(records):
    """Millions of events a second."""
    machine = first_with(records, ["trace/replay", "trace/file"])
    if machine is None:
        return missing("`trace_replay_bench`")
    rows, everything = [], []
    for title, bench, selection in RATES:
        series = points(records, machine, bench, "trace", selection)["quarry"]
        rows.append([title, *[value_text(series[trace].median) for trace in TRACES]])
        everything += series.values()
    head = ["million events a second", *TRACES.values()]
    return [f"{machine}, {origin(everything)}:", "", *table(head, rows)]


RECORDING = [
    ("a pool, into a file", "trace/pool", "file"),
    ("a pool, into a ring", "trace/pool", "ring of 100000"),
    ("`record` alone, into a file", "trace/record", "file"),
    ("`record` alone, into a ring", "trace/record", "ring of 100000"),
]


def recording(records):
    """Nanoseconds for each recorded event, on each machine that measured it."""
    selected = [
        record | {"params": record["params"] | {"allocator": "quarry"}} for record in records
    ]
    lines = []
    for machine in machines(selected):
        if not all(points(selected, machine, bench) for bench in ("trace/pool", "trace/record")):
            continue
        rows, everything = [], []
        for title, bench, case in RECORDING:
            row = [title]
            for threads in (1, 2):
                found = points(selected, machine, bench, None, {"case": case, "threads": threads})
                point = found["quarry"][None]
                everything.append(point)
                low, high = point.values["p10"], point.values["p90"]
                row.append(f"{value_text(point.median)} ({value_text(low)} to {value_text(high)})")
            rows.append(row)
        head = ["ns an event, median (p10 to p90)", "one thread", "two threads"]
        lines += ["", f"{machine}, {origin(everything)}:", "", *table(head, rows)]
    return lines[1:] or missing("`trace_record_bench`")


def kernels(records):
    """What recording costs kernels."""
    benches = ["heap/record/malloc", "heap/record/free"]
    machine = first_with(records, benches)
    if machine is None:
        return missing("`heap_record_bench`")
    rows, everything = [], []
    for bench in benches:
        found = points(records, machine, bench)
        pair = [found[name][None] for name in ("quarry", "recorded")]
        everything += pair
        texts = [f"{1000 * point.median:.3g}" for point in pair]
        rows.append([bench.split("/")[-1], *texts, value_text(pair[1].median / pair[0].median)])
    head = ["ps for each lane", "heap_ref", "recorded_heap_ref", "÷"]
    return [f"{machine}, {origin(everything)}, 2^20 lanes, 64 B each:", "", *table(head, rows)]


def upstream(records):
    """Microseconds for each block of the upstream, by its size."""
    benches = ["upstream/allocate", "upstream/free"]
    machine = first_with(records, benches)
    if machine is None:
        return missing("`upstream_calls_bench`")
    rows, everything = [], []
    for bench, title in zip(benches, ("cudaMalloc", "cudaFree"), strict=True):
        series = points(records, machine, bench, "bytes", {"allocator": "cudaMalloc"})["cudaMalloc"]
        everything += series.values()
        rows.append([title, *[value_text(series[size].median) for size in sorted(series)]])
    head = ["µs, median", *[f"{size >> 20:,} MiB" for size in sorted(series)]]
    return [f"{machine}, {origin(everything)}:", "", *table(head, rows)]


SECTIONS = HEURISTICS | {
    "peaks": peaks,
    "separations": separations,
    "rates": rates,
    "recording": recording,
    "kernels": kernels,
    "upstream": upstream,
}
