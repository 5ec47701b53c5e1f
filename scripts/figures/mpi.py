# SPDX-License-Identifier: Apache-2.0
"""Tables of GPU MPI: docs/design/mpi.md, mpi_analysis.md and mpi_programs.md.

Records of the benchmarks have params.system, and params.host, on which the system ran.
"""

from .records import select
from .table import DASH, Table, at, found, lines, markdown, named, of_point, ratio, spread, value

ORIGIN = "{machines}. {origin}."
UNIT = of_point(lambda point: point.unit)


def table(rows, columns, head, before=ORIGIN, cell=spread(), **more):  # noqa: B008
    """A table of all machines, whose origin names them."""
    return Table(rows, columns, cell, head, before, machines="all", **more)


# --- docs/design/mpi.md: a quantity for each number of ranks. The goal is for Quarry on a GPU.

SYSTEMS = {
    "Quarry, GPU": "system=quarry-gpu",
    "Quarry, one core": "system=quarry-cpu",
    "Open MPI": "system=open-mpi",
}
LOCAL, BOTH = "large local variable", "both directions"
SEND, WAIT = "`MPI_Sendrecv`", "`MPI_Irecv`, `MPI_Isend`, `MPI_Waitall`"
COSTS = f"""
ping-pong, 8 B, `malloc`, round trip > ping_pong/round_trip bytes=8 buffer=heap goal="≤ 3"
ping-pong, 64 B, `malloc`, round trip > ping_pong/round_trip bytes=64 buffer=heap
ping-pong, 512 B, `malloc`, round trip > ping_pong/round_trip bytes=512 buffer=heap
ping-pong, 4096 B, `malloc`, round trip > ping_pong/round_trip bytes=4096 buffer=heap
ping-pong, 8 B, stack, round trip > ping_pong/round_trip bytes=8 buffer=stack goal="≤ 3"
ping-pong, 64 B, stack, round trip > ping_pong/round_trip bytes=64 buffer=stack
ping-pong, 512 B, stack, round trip > ping_pong/round_trip bytes=512 buffer=stack
ping-pong, 4096 B, stack, round trip > ping_pong/round_trip bytes=4096 buffer=stack
ping-pong, 32 KiB, `malloc`, bandwidth > ping_pong/bandwidth bytes=32768 buffer=heap
ping-pong, 256 KiB, `malloc`, bandwidth > ping_pong/bandwidth bytes=262144 buffer=heap
ping-pong, 1 MiB, `malloc`, bandwidth > ping_pong/bandwidth bytes=1048576 buffer=heap goal="≥ 30"
ping-pong, 4 MiB, `malloc`, bandwidth > ping_pong/bandwidth bytes=4194304 buffer=heap
ping-pong, 64 KiB, {LOCAL}, bandwidth > ping_pong/bandwidth bytes=65536 buffer="large local"
ping-pong, 1 MiB, {LOCAL}, bandwidth > ping_pong/bandwidth bytes=1048576 buffer="large local"
ring, a hop > ring/hop goal="≤ 1.2"
barrier > barrier/time goal="≤ 3"
allreduce of 8 B > allreduce/time
neighbour exchange, one {SEND} > neighbours/time calls=sendrecv directions=1 goal="≤ 10"
neighbour exchange, one {WAIT} > neighbours/time calls=isend directions=1 goal="≤ 10"
neighbour exchange, {BOTH}, {SEND} > neighbours/time calls=sendrecv directions=2 goal="≤ 10"
neighbour exchange, {BOTH}, {WAIT} > neighbours/time calls=isend directions=2 goal="≤ 10"
hello, whole run > hello/run
"""


def failure_of(selection):
    """The selection of the program's failure."""
    names = ("host", "ranks", "system")
    program = {"bench": "mpi/failed", "program": selection["bench"].split("/")[1]}
    return program | {name: selection[name] for name in names if name in selection}


def cost_rows(view):
    """Of the host with a GPU that was measured last."""
    rows = [(title, chosen | {"bench": f"mpi/{chosen['bench']}"}) for title, chosen in lines(COSTS)]
    gpu = [view.data.matching(select(c, "system=quarry-gpu", {"goal": None})) for _, c in rows]
    hosts = [(r["date"], r["params"]["host"]) for records in gpu for r in records]
    for title, chosen in rows if hosts else []:
        chosen = chosen | {"host": max(hosts)[1]}
        both = (chosen | {"goal": None}, failure_of(chosen))
        for ranks in sorted({key for c in both for (key,) in view.data.points(c, None, ["ranks"])}):
            yield f"{title} | {ranks:,}", chosen | {"ranks": ranks}


def cost(view, selection):
    return spread()(view, selection) or spread()(view, failure_of(selection))


def cost_unit(view, selection):
    point = view.data.point(select(selection, {"goal": None}))
    return point.unit if point else ""


def goal(view, selection):
    if "goal" not in selection:
        return ""
    sign, limit = selection["goal"].split()
    measured = view.median(selection, SYSTEMS["Quarry, GPU"])
    met = measured is not None and (measured - float(limit)) * (1 if sign == "≥" else -1) >= 0
    return f"{sign} {limit}: {'met' if met else '**missed**'}"


COLUMNS = {"unit": cost_unit, **SYSTEMS, "goal": goal}
COST_TABLE = table(cost_rows, COLUMNS, " | ranks", cell=cost, keep=True)


def part(name, nth):
    return of_point(lambda point: f"{point.params[name][nth]:,}")


REGISTERS = {  # the stacks and spills of the programs of tests/mpi, by the limit of registers
    f"{title}, {limit} registers": part(name, nth)
    for title, name in (("stack", "stack"), ("spilled", "spills"))
    for nth, limit in enumerate((32, 64, 128, 255))
}
REPORTS = table(
    found("`{program}`", "mpi/report", "program"), REGISTERS, "program", "Bytes, " + ORIGIN
)
APART = {"Stacks and spills of MPI programs": REPORTS}

# --- docs/design/mpi_programs.md: programs that nobody here wrote, by scripts/mpi_programs.py

STEPS = {True: "yes", False: "**no**", None: DASH}


def others(data):
    """The last commit of each program."""
    found = {}
    for params in (record["params"] for record in data.matching("mpi/others")):
        name, commit = (params["repository"], params["program"]), params["commit"]
        if found.get(name, {}).get("commit") != commit:
            found[name] = {"commit": commit}
        found[name][params["device"]] = params
    rows = []
    for (repository, program), entry in sorted(found.items()):
        tried = [entry.get(device, {"equal": None, "reason": ""}) for device in ("cpu", "gpu")]
        ranks = (
            f" ({', '.join(f'{n:,}' for n in p['ranks'])})" if p["equal"] else "" for p in tried
        )
        compiles = STEPS[next(p["compiles"] for p in tried if "compiles" in p)]
        equal = [STEPS[p["equal"]] + text for p, text in zip(tried, ranks)]
        reason = "; ".join(filter(None, dict.fromkeys(p["reason"] for p in tried)))
        rows.append([program, f"{repository} {entry['commit']}", compiles, *equal, reason])
    good = [sum(row[nth].startswith("yes") for row in rows) for nth in (2, 3, 4)]
    cpu, gpu = (sum(row[nth] != DASH for row in rows) for nth in (3, 4))
    head = ["program", "repository, commit", "compiles", "CPU (ranks)", "GPU (ranks)", "reason"]
    return [
        f"{good[0]} of {len(rows)} programs compile. Equal output: {good[1]} of {cpu} on the CPU, "
        f"{good[2]} of {gpu} on the GPU.",
        "",
        *markdown(head, rows, right=False),
    ]


# --- docs/design/mpi_analysis.md

MALLOCS = {
    "cuda": "CUDA's `malloc`",
    "cuda-dynamic": "header",
    "cuda-map": "no header",
    "dynamic": "Quarry, no classes",
    "collective": "Quarry, classes",
}
OPERATIONS = {
    "alltoall": "`MPI_Alltoall`",
    "broadcast": "`MPI_Bcast`",
    "messages": "all to all by allocated messages",
    "reduce": "`MPI_Reduce`",
}
GAIN = ratio("malloc=cuda", "malloc=collective")
# The seed's figure 5.
OPERATION_TABLE = table(
    found(
        "{operation} | {ranks} | {doubles}",
        "mpi/operation/time malloc=*",
        "operation ranks doubles",
        OPERATIONS,
    ),
    [*named("malloc", MALLOCS), ("ratio", GAIN)],
    " | ranks | doubles",
    "Milliseconds, " + ORIGIN,
)


def calls(quantity, title):
    """The columns of a quantity, by how the allocations in two arms of a branch were compiled."""
    two, one = (f'mpi/arms/{quantity} compiled="{calls}"' for calls in ("two calls", "one call"))
    return [(f"{title}, two calls", two), ("one call", one), ("ratio", ratio(two, one))]


ARMS = table(
    found(
        "{arms}, work {work} | {ranks} | {floats}",
        "mpi/arms/work",
        "arms work ranks floats",
        {name: name for name in ("long", "short", "together", "in arms")},
    ),
    calls("malloc", "`malloc`") + calls("work", "work"),
    "arms | ranks | floats",
    "Microseconds, " + ORIGIN,
)
CLASSES = table(
    found("`{program}`", "mpi/classes", "program"),
    {kind: of_point(lambda p, kind=kind: f"{p.params[kind]}") for kind in ("CU", "CV", "NO")},
    "program",
    "",
)
# The programs of tests/mpi/programs. Each run is a record.
RUNS = named("malloc", {name: MALLOCS[name] for name in ("cuda", "dynamic", "collective")})
PROGRAMS = table(
    found("`{program}` | {ranks}", "mpi/program/time malloc=*", "program ranks"),
    [*RUNS, ("what classes gain", ratio("malloc=dynamic", "malloc=collective", ".2f"))],
    "program | ranks",
    "Milliseconds, " + ORIGIN,
    lambda view, selection: spread()(view, selection) or "failed",
)


def workload_gain(view, selection):
    """How much better Quarry with classes is than CUDA's malloc."""
    is_rate = selection["bench"].endswith("gflops")
    return (ratio("malloc=collective", "malloc=cuda") if is_rate else GAIN)(view, selection)


# The seed's figures 1 to 4: the rate of the work, and the time of malloc and free.
QUANTITIES = {
    "{workload} work": "mpi/workload/gflops arrays=None",
    "`malloc`": "mpi/workload/malloc arrays=None workload=linear",
    "`free`": "mpi/workload/free arrays=None workload=linear",
}
WORKLOADS = table(
    [
        found(f"{title} | {{ranks}} | {{floats}}", chosen, "workload ranks floats")
        for title, chosen in QUANTITIES.items()
    ],
    [("unit", at("malloc=*", UNIT)), *named("malloc", MALLOCS), ("ratio", workload_gain)],
    " | ranks | floats",
    cell=value(),
)
ORDERS = {
    "walk": "all read in order",
    "apart": "in order, from an own first element",
    "random": "in random order",
    "single": "one rank of a warp reads in order",
}
FLOATS = "{workload} work | {ranks} | {floats} floats"
DOUBLES = "{order} | {ranks} | {doubles} doubles"
GFLOPS = "mpi/workload/gflops arrays=contiguous"
ARRAYS = table(
    [
        found(FLOATS, GFLOPS, "ranks floats workload"),
        found(DOUBLES, "mpi/arrays ranks=12288", "order ranks doubles", ORDERS),
        found(DOUBLES, "mpi/arrays ranks=1024", "order ranks doubles", ORDERS),
    ],
    {
        "unit": at("arrays=contiguous", UNIT),
        "contiguous": "arrays=contiguous",
        "interleaved": "arrays=interleaved",
        "ratio": ratio("arrays=interleaved", "arrays=contiguous", ".2f"),
    },
    " | ranks | array",
)
ANALYSIS_APART = {
    "Allocations in two arms of a branch": ARMS,
    "Classes of the allocations of MPI programs": CLASSES,
    "Times of MPI programs by allocator": PROGRAMS,
    "Work on arrays of ranks by allocator": WORKLOADS,
    "Contiguous and interleaved arrays of ranks": ARRAYS,
}
