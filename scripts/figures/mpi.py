# SPDX-License-Identifier: Apache-2.0
"""Tables of GPU MPI: docs/design/mpi.md, mpi_analysis.md and mpi_programs.md.

Records of the benchmarks have params.system, and params.host, on which the system ran.
"""

from .records import select, value_text
from .table import DASH, Table, found, lines, markdown, named, param, ratio, spread, unit, value

MALLOCS = {
    "cuda": "CUDA's `malloc`",
    "cuda-dynamic": "header",
    "cuda-map": "no header",
    "dynamic": "Quarry, no classes",
    "collective": "Quarry, classes",
}
ORIGIN = "{machines}. {origin}."


def table(rows, columns, head, before=ORIGIN, cell=spread(), **more):
    """A table of all machines, whose origin names them."""
    return Table(rows, columns, cell, head, before, machines="all", **more)


# --- docs/design/mpi.md: a quantity for each number of ranks. The goal is for Quarry on a GPU.

SYSTEMS = {
    "Quarry, GPU": "system=quarry-gpu",
    "Quarry, one core": "system=quarry-cpu",
    "Open MPI": "system=open-mpi",
}
COSTS = """
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
ping-pong, 64 KiB, large local variable, bandwidth > ping_pong/bandwidth bytes=65536 buffer="large local"
ping-pong, 1 MiB, large local variable, bandwidth > ping_pong/bandwidth bytes=1048576 buffer="large local"
ring, a hop > ring/hop goal="≤ 1.2"
barrier > barrier/time goal="≤ 3"
allreduce of 8 B > allreduce/time
neighbour exchange, one `MPI_Sendrecv` > neighbours/time calls=sendrecv directions=1 goal="≤ 10"
neighbour exchange, one `MPI_Irecv`, `MPI_Isend`, `MPI_Waitall` > neighbours/time calls=isend directions=1 goal="≤ 10"
neighbour exchange, both directions, `MPI_Sendrecv` > neighbours/time calls=sendrecv directions=2 goal="≤ 10"
neighbour exchange, both directions, `MPI_Irecv`, `MPI_Isend`, `MPI_Waitall` > neighbours/time calls=isend directions=2 goal="≤ 10"
hello, whole run > hello/run
"""


def failure_of(selection):
    """The selection of the program's failure."""
    program = selection["bench"].split("/")[1]
    names = ("host", "ranks", "system")
    return {"bench": "mpi/failed", "program": program} | {n: selection[n] for n in names}


def cost_rows(view):
    """Of the host with a GPU that was measured last."""
    hosts = [
        (record["date"], record["params"]["host"])
        for _, cost in lines(COSTS)
        for record in view.data.matching("mpi/" + cost.split()[0] + " system=quarry-gpu")
    ]
    for title, cost in lines(COSTS) if hosts else []:
        selection = select("mpi/" + cost, {"host": max(hosts)[1], "system": "*"})
        failed = failure_of(selection | {"ranks": "*"})
        ranks = {
            key
            for chosen in (selection, failed)
            for (key,) in view.data.points({**chosen, "goal": None}, None, ["ranks"])
        }
        for count in sorted(ranks):
            yield f"{title} | {count:,}", selection | {"ranks": count}


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


REGISTERS = (32, 64, 128, 255)
COST_TABLE = table(
    cost_rows, {"unit": cost_unit, **SYSTEMS, "goal": goal}, " | ranks", cell=cost, keep=True
)
APART = {
    "Stacks and spills of MPI programs": table(
        found("`{program}`", "mpi/report", "program"),
        {
            f"{title}, {limit} registers": param(name, nth)
            for name, title in (("stack", "stack"), ("spills", "spilled"))
            for nth, limit in enumerate(REGISTERS)
        },
        "program",
        "Bytes, " + ORIGIN,
    )
}

# --- docs/design/mpi_programs.md

STEPS = {True: "yes", False: "**no**", None: DASH}


def others(data):
    """Programs that nobody here wrote, by scripts/mpi_programs.py: the last commit of each."""
    found = {}
    for record in data.matching("mpi/others"):
        params = record["params"]
        entry = found.setdefault((params["repository"], params["program"]), {})
        if entry and entry["commit"] != params["commit"]:
            entry.clear()
        entry |= {"commit": params["commit"], "compiles": params["compiles"]}
        entry[params["device"]] = params
    rows = []
    for (repository, program), entry in sorted(found.items()):
        steps = [STEPS[entry["compiles"]]]
        for device in ("cpu", "gpu"):
            params = entry.get(device, {"equal": None})
            ranks = f" ({', '.join(f'{n:,}' for n in params['ranks'])})" if params["equal"] else ""
            steps.append(STEPS[params["equal"]] + ranks)
        reasons = dict.fromkeys(entry[name]["reason"] for name in ("cpu", "gpu") if name in entry)
        row = [program, f"{repository} {entry['commit']}", *steps]
        rows.append([*row, "; ".join(filter(None, reasons))])
    counts = [
        f"{sum(row[nth].startswith('yes') for row in rows)} of "
        f"{sum(row[nth] != DASH for row in rows)} on the {device}"
        for nth, device in ((3, "CPU"), (4, "GPU"))
    ]
    compiled = sum(row[2] == "yes" for row in rows)
    head = ["program", "repository, commit", "compiles", "CPU (ranks)", "GPU (ranks)", "reason"]
    return [
        f"{compiled} of {len(rows)} programs compile. Equal output: {', '.join(counts)}.",
        "",
        *markdown(head, rows, right=False),
    ]


# --- docs/design/mpi_analysis.md

OPERATIONS = {
    "alltoall": "`MPI_Alltoall`",
    "broadcast": "`MPI_Bcast`",
    "messages": "all to all by allocated messages",
    "reduce": "`MPI_Reduce`",
}
ORDERS = {
    "walk": "all read in order",
    "apart": "in order, from an own first element",
    "random": "in random order",
    "single": "one rank of a warp reads in order",
}
QUANTITIES = {
    "{workload} work": "mpi/workload/gflops arrays=None",
    "`malloc`": "mpi/workload/malloc arrays=None workload=linear",
    "`free`": "mpi/workload/free arrays=None workload=linear",
}
GAIN = ratio("malloc=cuda", "malloc=collective")


def workload_gain(view, selection):
    """How much better Quarry with classes is than CUDA's malloc."""
    is_rate = selection["bench"].endswith("gflops")
    return (ratio("malloc=collective", "malloc=cuda") if is_rate else GAIN)(view, selection)


def calls(quantity, title):
    """The columns of a quantity, by how the allocations were compiled."""
    two, one = (f'mpi/arms/{quantity} compiled="{calls}"' for calls in ("two calls", "one call"))
    return [(f"{title}, two calls", two), ("one call", one), ("ratio", ratio(two, one))]


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
ANALYSIS_APART = {
    "Allocations in two arms of a branch": table(
        found(
            "{arms}, work {work} | {ranks} | {floats}",
            "mpi/arms/work",
            "arms work ranks floats",
            {"long": "long", "short": "short", "together": "together", "in arms": "in arms"},
        ),
        [*calls("malloc", "`malloc`"), *calls("work", "work")],
        "arms | ranks | floats",
        "Microseconds, " + ORIGIN,
    ),
    # The classes of the allocations of tests/mpi/programs.
    "Classes of the allocations of MPI programs": table(
        found("`{program}`", "mpi/classes", "program"),
        {kind: param(kind) for kind in ("CU", "CV", "NO")},
        "program",
        "",
    ),
    # The programs of tests/mpi/programs. Each run is a record.
    "Times of MPI programs by allocator": table(
        found("`{program}` | {ranks}", "mpi/program/time malloc=*", "program ranks"),
        [
            *named("malloc", {n: MALLOCS[n] for n in ("cuda", "dynamic", "collective")}),
            ("what classes gain", ratio("malloc=dynamic", "malloc=collective", ".2f")),
        ],
        "program | ranks",
        "Milliseconds, " + ORIGIN,
        spread(missing="failed"),
    ),
    # The seed's figures 1 to 4: the rate of the work, and the time of malloc and free.
    "Work on arrays of ranks by allocator": table(
        [
            found(f"{title} | {{ranks}} | {{floats}}", chosen, "workload ranks floats")
            for title, chosen in QUANTITIES.items()
        ],
        [("unit", unit("malloc=*")), *named("malloc", MALLOCS), ("ratio", workload_gain)],
        " | ranks | floats",
        cell=value(),
    ),
    "Contiguous and interleaved arrays of ranks": table(
        [
            found(
                "{workload} work | {ranks} | {floats} floats",
                "mpi/workload/gflops arrays=contiguous",
                "ranks floats workload",
                cells="mpi/workload/gflops",
            ),
            *(
                found(
                    "{order} | {ranks} | {doubles} doubles",
                    f"mpi/arrays ranks={ranks}",
                    "order ranks doubles",
                    ORDERS,
                )
                for ranks in (12_288, 1024)
            ),
        ],
        {
            "unit": unit("arrays=contiguous"),
            "contiguous": "arrays=contiguous",
            "interleaved": "arrays=interleaved",
            "ratio": ratio("arrays=interleaved", "arrays=contiguous", ".2f"),
        },
        " | ranks | array",
    ),
}
