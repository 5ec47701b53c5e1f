# SPDX-License-Identifier: Apache-2.0
"""Tables of recorded traces: docs/design/traces.md."""

from .heuristics import HEURISTICS
from .heuristics import REAL_TRACES as TRACES
from .names import DEFAULT_PLACEMENT
from .records import value_text
from .table import Table, digits, ratio, spread, value

TRACE_COLUMNS = {title: {"trace": trace} for trace, title in TRACES.items()}
ORIGIN = "{machine}, {origin}:"


def peak(view, selection):
    """MiB, and how much more that is than the trace has in use."""
    point = view.point(selection)
    least = view.point(selection | {"allocator": "requested"})
    excess = 100 * (point.median / least.median - 1)
    share = "" if selection["allocator"] == "requested" else f" (+{excess:.1f} %)"
    return f"{value_text(point.median / 2**20)}{share}"


def by_allocator(bench, titles):
    return {title: {"bench": bench, "allocator": name} for name, title in titles.items()}


def upstream_columns(view):
    sizes = view.points("upstream/free", "bytes")["cudaMalloc"]
    return {f"{size >> 20:,} MiB": {"bytes": size} for size in sizes}


TABLES = HEURISTICS | {
    "peaks": Table(
        missing="`trace_peaks_bench`",
        needs=("trace/peak",),
        before="{origin}:",
        head="MiB at the peak",
        rows=by_allocator(
            "trace/peak",
            {
                "requested": "in use: nothing needs less",
                "pytorch": "PyTorch, as recorded",
                "fast": "a pool with defaults",
                "streams": "a stream pool with defaults",
                "tuned": "tuned pool",
                "separated": "separated pools",
                "plan": "plan",
            },
        ),
        columns=TRACE_COLUMNS,
        cell=peak,
    ),
    # The peak of the second half of a trace, by what was learnt from the first half.
    "separations": Table(
        missing=["Not measured yet: `bench/trace_separation.py`."],
        needs=("trace/separate",),
        before="{origin}:",
        head="MiB at the peak of the second half",
        rows=by_allocator(
            "trace/separate",
            {
                "one pool": "one pool",
                "size": "rule: size",
                "call_site": "rule: call site",
                "call_site_and_size": "rule: call site and size",
                "tree": "decision tree, 8 leaves",
                "deep tree": "decision tree, no limit",
            },
        ),
        columns=TRACE_COLUMNS,
        cell=value(scale=1 / 2**20),
    ),
    "rates": Table(
        missing="`trace_replay_bench`",
        needs=("trace/replay", "trace/file"),
        before=ORIGIN,
        head="million events a second",
        rows={
            "replay, default pool, events in memory": {
                "bench": "trace/replay",
                "strategy": DEFAULT_PLACEMENT,
            },
            "replay, best fit, events in memory": {
                "bench": "trace/replay",
                "strategy": "lowest_best_fit",
            },
            "replay, stitched pool, events in memory": {
                "bench": "trace/replay",
                "strategy": "stitched",
            },
            "read a file and replay it, default pool": {
                "bench": "trace/file",
                "strategy": DEFAULT_PLACEMENT,
            },
            "read a file": {"bench": "trace/read"},
            "write a file": {"bench": "trace/write"},
            "tune, all candidates, on two cores": {"bench": "trace/tune"},
        },
        columns=TRACE_COLUMNS,
        cell=value(),
    ),
    "recording": Table(
        missing="`trace_record_bench`",
        needs=("trace/pool", "trace/record"),
        each=True,
        before=ORIGIN,
        head="ns an event, median (p10 to p90)",
        rows={
            f"{program}, into a {kind}": {"bench": bench, "case": case, "allocator": None}
            for program, bench in (("a pool", "trace/pool"), ("`record` alone", "trace/record"))
            for kind, case in (("file", "file"), ("ring", "ring of 100000"))
        },
        columns={"one thread": {"threads": 1}, "two threads": {"threads": 2}},
        cell=spread(" to "),
    ),
    "kernels": Table(
        missing="`heap_record_bench`",
        needs=("heap/record/malloc", "heap/record/free"),
        before="{machine}, {origin}, 2^20 lanes, 64 B each:",
        head="ps for each lane",
        rows={name: {"bench": f"heap/record/{name}"} for name in ("malloc", "free")},
        columns={
            "heap_ref": {"allocator": "quarry"},
            "recorded_heap_ref": {"allocator": "recorded"},
            "÷": ratio({"allocator": "recorded"}, {"allocator": "quarry"}, statistic="median"),
        },
        cell=value(digits(".3g"), 1000),
    ),
    "upstream": Table(
        missing="`upstream_calls_bench`",
        needs=("upstream/allocate", "upstream/free"),
        before=ORIGIN,
        head="µs, median",
        rows={
            "cudaMalloc": {"bench": "upstream/allocate", "allocator": "cudaMalloc"},
            "cudaFree": {"bench": "upstream/free", "allocator": "cudaMalloc"},
        },
        columns=upstream_columns,
        cell=value(),
    ),
    "python_recording": Table(
        missing=["Not measured yet: `bench/python_recording.py`."],
        needs=("python/record/pool", "python/record/torch"),
        before=ORIGIN,
        head="ns of processor time for an allocation and its free, median (p10 to p90)",
        rows={
            "`quarry.Pool`": {"bench": "python/record/pool"},
            "PyTorch's functions, through ctypes and without Python's lock": {
                "bench": "python/record/torch"
            },
        },
        columns={case: {"case": case} for case in ("no recording", "file", "file with call sites")},
        cell=spread(" to "),
    ),
}
