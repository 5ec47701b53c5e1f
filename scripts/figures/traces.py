# SPDX-License-Identifier: Apache-2.0
"""Tables of traces and of Python programs: docs/design/traces.md and docs/guide/pytorch.md."""

from .heuristics import REAL_TRACES
from .records import value_text
from .table import Table, at, found, named, ratio, spread, value

COLUMNS = named("trace", REAL_TRACES)
ORIGIN = "{machine}, {origin}:"
EVENT = "ns an event, median (p10 to p90)"
PAIR = "ns of processor time for an allocation and its free, median (p10 to p90)"


def peak(view, selection):
    """MiB, and how much more that is than the trace has in use."""
    own, least = view.median(selection), view.median(selection, "allocator=requested")
    if own is None:
        return None
    more = "" if selection["allocator"] == "requested" else f" (+{100 * (own / least - 1):.1f} %)"
    return value_text(own / 2**20) + more


PEAKS = """
in use: nothing needs less > trace/peak allocator=requested
PyTorch, as recorded > trace/peak allocator=pytorch
a pool with defaults > trace/peak allocator=fast
a stream pool with defaults > trace/peak allocator=streams
tuned pool > trace/peak allocator=tuned
separated pools > trace/peak allocator=separated
plan > trace/peak allocator=plan
"""
# The peak of the second half of a trace, by what was learnt from the first half.
SEPARATIONS = """
one pool > trace/separate allocator="one pool"
rule: size > trace/separate allocator=size
rule: call site > trace/separate allocator=call_site
rule: call site and size > trace/separate allocator=call_site_and_size
decision tree, 8 leaves > trace/separate allocator=tree
decision tree, no limit > trace/separate allocator="deep tree"
"""
HALF = "MiB at the peak of the second half"
RATES = """
replay, default pool, events in memory > trace/replay strategy=fast_fit
replay, best fit, events in memory > trace/replay strategy=lowest_best_fit
replay, stitched pool, events in memory > trace/replay strategy=stitched
read a file and replay it, default pool > trace/file strategy=fast_fit
read a file > trace/read
write a file > trace/write
tune, all candidates, on two cores > trace/tune
"""
RECORDING = """
a pool, into a file > trace/pool case=file
a pool, into a ring > trace/pool case="ring of 100000"
`record` alone, into a file > trace/record case=file
`record` alone, into a ring > trace/record case="ring of 100000"
"""
THREADS = named("threads", {1: "one thread", 2: "two threads"})
KERNELS = {
    "heap_ref": "",
    "recorded_heap_ref": "allocator=recorded",
    "÷": ratio("allocator=recorded", ""),
}
UPSTREAM = """
cudaMalloc > upstream/allocate allocator=cudaMalloc
cudaFree > upstream/free allocator=cudaMalloc
"""
BYTES = found("{bytes}", "upstream/free allocator=cudaMalloc", "bytes", cells="")
PYTHON = """
`quarry.Pool` > python/record/pool
PyTorch's functions, through ctypes and without Python's lock > python/record/torch
"""
LOGS = {case: {"case": case} for case in ("no recording", "file", "file with call sites")}
PEAK_TABLE = Table(PEAKS, COLUMNS, peak, "MiB at the peak", "{origin}:")
APART = {
    "Pools separated by what a trace shows": Table(
        SEPARATIONS, COLUMNS, value(scale=2**-20), HALF, "{origin}:"
    ),
    "Events a second": Table(RATES, COLUMNS, value(), "million events a second", ORIGIN),
    "Cost of recording": Table(RECORDING, THREADS, spread(" to "), EVENT, ORIGIN, machines="each"),
    "Cost of recording in kernels": Table(
        {name: f"heap/record/{name}" for name in ("malloc", "free")},
        KERNELS,
        value(".3g", 1000),
        "ps for each lane",
        "{machine}, {origin}, 2^20 lanes, 64 B each:",
    ),
    "Times of the upstream": Table(UPSTREAM, BYTES, value(), "µs, median", ORIGIN),
    "Cost of recording in Python": Table(PYTHON, LOGS, spread(" to "), PAIR, ORIGIN),
}

# --- docs/guide/pytorch.md

TRAINING = {model: f"python/plugins/training_{model} allocator=*" for model in ("gpt", "resnet")}
MEASURES = {"step (ms)": ("step_ms", 1), "peak reserved (GiB)": ("peak_reserved", 2**-30)}
USES = {"quarry": "`use()`", "one_block": "`use()` in one block", "pool": "`pool()`"}


def session_rows(view):
    """Of the last day. A session is all runs of one commit, which alternated between allocators."""
    names = ("date", "commit", "runs", "allocator", "first_block", "next_block")
    chosen = [(bench, name) for bench in TRAINING.values() for name, _ in MEASURES.values()]
    found = (view.data.points(f"{b} measure={name}", view.machine, names) for b, name in chosen)
    keys = list(dict.fromkeys(key for points in found for key in points))
    commits, day = [key[1] for key in keys], max((key[0] for key in keys), default=None)
    for key in sorted(keys, key=lambda key: commits.index(key[1])):
        blocks = " and ".join(filter(None, key[4:]))
        title = USES.get(key[3], key[3]) + (f", blocks: {blocks}" if blocks else "")
        if key[0] == day:
            yield f"{title} | {key[1]}, {key[2]} runs", dict(zip(names, key))


def spread_of_times(view):
    day = view.shown[-1].date
    spreads = (f'{bench} measure="step_ms spread" date={day}' for bench in TRAINING.values())
    found = [record["value"] for chosen in spreads for record in view.data.matching(chosen)]
    return {"spread": value_text(max(found)), "date": day}


TRAINING_TABLE = Table(
    session_rows,
    {
        f"{model}: {title}": at(f"{bench.split()[0]} measure={measure}", value(scale=scale))
        for model, bench in TRAINING.items()
        for title, (measure, scale) in MEASURES.items()
    },
    head=" | session",
    before="{machine}, {date}. Medians of the runs. In one session, the times of a step in two runs"
    "\nwith the same allocator differ by a factor of up to {spread}:",
    words=spread_of_times,
)
