# SPDX-License-Identifier: Apache-2.0
"""Tables of GPU MPI: docs/design/mpi.md, mpi_analysis.md and mpi_programs.md.

Records of the benchmarks have params.system, and params.host, on which the system ran. A row of
these tables is {key of the column: points, oldest first}.
"""

from dataclasses import dataclass, field
from statistics import median

from .records import Point, origin, range_text, value_text, x_text
from .table import DASH, Table, markdown

SYSTEMS = {
    "quarry-gpu": "Quarry, GPU",
    "quarry-cpu": "Quarry, one core",
    "open-mpi": "Open MPI",
}
MALLOCS = {
    "cuda": "CUDA's `malloc`",
    "cuda-dynamic": "header",
    "cuda-map": "no header",
    "dynamic": "Quarry, no classes",
    "collective": "Quarry, classes",
}
FAILURES = {"exit status 124": "no end in time", "exit status 137": "no end in time"}
FORMS = ("contiguous", "interleaved")


def not_forms(arrays):
    """A selection of the param `arrays`: without the records of scripts/run_mpi_arrays_bench.sh."""
    return arrays not in FORMS


def pivot(data, bench, rows, column, **selection):
    """{values of the params `rows`: {value of the param `column`: points}}, oldest first."""
    found = {}
    for record in data.matching(None, bench, selection):
        params = record["params"]
        if column in params:
            row = found.setdefault(tuple(params[name] for name in rows), {})
            row.setdefault(params[column], []).append(Point.of(record))
    return found


# --- Writers of cells


def result(point):
    """The median, and in brackets p10 and p90; or why the program failed."""
    if point.median is None:
        return FAILURES.get(point.error, "failed")
    return (
        range_text(point.values, "median", "p10", "p90")
        if "p10" in point.values
        else median_of(point)
    )


def median_of(point):
    return "failed" if point.median is None else value_text(point.median)


def last(*keys, write=result):
    """Writes the last point of each key, if the row has all of them."""

    def text(view, row):
        if not all(key in row for key in keys):
            return None
        points = [row[key][-1] for key in keys]
        view.seen += points
        return write(*points)

    return text


def quotient(write):
    """The quotient of two points, if both have a value."""

    def text(above, below):
        pair = (above.median, below.median)
        return DASH if None in pair else write(pair[0] / pair[1])

    return text


def last_of(titles, write=result):
    return {title: last(key, write=write) for key, title in titles.items()}


def rounded(ratio):
    return f"{ratio:.3g}"


def table(rows, columns, head, script, before="{origin}", **more):
    """A table of all machines, whose origin names them."""

    def words(view):
        machines = dict.fromkeys(point.machine for point in view.shown)
        return {"origin": f"{'; '.join(machines)}. {origin(view.shown)}."}

    missing = (
        script if isinstance(script, list) else [f"Not measured yet: `scripts/{script}` measures."]
    )
    fixed = {"any_machine": True, "keep": True, "cell": last, "words": words}
    return Table(rows, columns, head=head, missing=missing, before=before, **fixed, **more)


# --- docs/design/mpi.md


@dataclass
class Cost:
    """A quantity for each number of ranks. The goal is for Quarry on a GPU."""

    title: str
    bench: str
    selection: dict = field(default_factory=dict)
    goal: float | None = None
    is_at_least: bool = False  # the goal is a minimum

    def goal_text(self, view, row):
        if self.goal is None:
            return ""
        text = f"{'≥' if self.is_at_least else '≤'} {value_text(self.goal)}"
        if "quarry-gpu" not in row:
            return text
        value = row["quarry-gpu"][-1].median
        is_met = value is not None and (
            value >= self.goal if self.is_at_least else value <= self.goal
        )
        return f"{text}: {'met' if is_met else '**missed**'}"


def exchange(calls, directions, title):
    selection = {"calls": calls, "directions": directions}
    return Cost(f"neighbour exchange, {title}", "mpi/neighbours/time", selection, 10.0)


def ping_pong(size, buffer, quantity="round_trip", goal=None):
    titles = {"heap": "`malloc`", "stack": "stack", "large local": "large local variable"}
    title = f"ping-pong, {x_text('bytes', size)}, {titles[buffer]}, {quantity.replace('_', ' ')}"
    selection = {"bytes": size, "buffer": buffer}
    return Cost(title, f"mpi/ping_pong/{quantity}", selection, goal, quantity == "bandwidth")


COSTS = [
    *(
        ping_pong(size, buffer, goal=3.0 if size == 8 else None)
        for buffer in ("heap", "stack")
        for size in (8, 64, 512, 4096)
    ),
    *(
        ping_pong(size, "heap", "bandwidth", 30.0 if size == 1 << 20 else None)
        for size in (32768, 262144, 1 << 20, 4 << 20)
    ),
    *(ping_pong(size, "large local", "bandwidth") for size in (65536, 1 << 20)),
    Cost("ring, a hop", "mpi/ring/hop", goal=1.2),
    Cost("barrier", "mpi/barrier/time", goal=3.0),
    Cost("allreduce of 8 B", "mpi/allreduce/time"),
    exchange("sendrecv", 1, "one `MPI_Sendrecv`"),
    exchange("isend", 1, "one `MPI_Irecv`, `MPI_Isend`, `MPI_Waitall`"),
    exchange("sendrecv", 2, "both directions, `MPI_Sendrecv`"),
    exchange("isend", 2, "both directions, `MPI_Irecv`, `MPI_Isend`, `MPI_Waitall`"),
    Cost("hello, whole run", "mpi/hello/run"),
]


def cost_rows(view):
    """Of the host with a GPU that was measured last. A failed run has no value."""
    benches = {cost.bench for cost in COSTS} | {"mpi/failed"}
    found = [
        r
        for r in view.data.records
        if r["bench"] in benches and not_forms(r["params"].get("arrays"))
    ]
    gpus = [r["params"]["host"] for r in found if r["params"]["system"] == "quarry-gpu"]
    rows = []
    for cost in COSTS if gpus else []:
        by_ranks = {}
        for record in found:
            params = record["params"]
            is_failure = (
                record["bench"] == "mpi/failed" and params["program"] == cost.bench.split("/")[1]
            )
            is_measured = record["bench"] == cost.bench and cost.selection.items() <= params.items()
            if params["host"] == gpus[-1] and (is_measured or is_failure):
                row = by_ranks.setdefault(params["ranks"], {"cost": cost})
                row.setdefault(params["system"], []).append(Point.of(record))
        rows += [((cost.title, f"{ranks:,}"), row) for ranks, row in sorted(by_ranks.items())]
    return rows


def unit_text(view, row):
    units = [row[system][-1].unit for system in SYSTEMS if system in row]
    return next(filter(None, units), "").replace("us", "µs")


def report_columns(view):
    """Stack and spills for each limit of the registers."""

    def number(name, nth):
        return lambda point: f"{point.params[name][nth]:,}"

    limits = next(view.data.matching(None, "mpi/report", {}), {"params": {"registers": []}})
    return {
        f"{title}, {limit} registers": last(1, write=number(name, nth))
        for name, title in (("stack", "stack"), ("spills", "spilled"))
        for nth, limit in enumerate(limits["params"]["registers"])
    }


def program_rows(bench):
    def rows(view):
        found = {r["params"]["program"]: r for r in view.data.matching(None, bench, {})}
        return {
            f"`{name}`": {1: [Point.of(r)]} for name, r in sorted(found.items()) if r["value"] != 0
        }

    return rows


MPI = {
    "costs": table(
        cost_rows,
        {"unit": unit_text}
        | last_of(SYSTEMS)
        | {"goal": lambda view, row: row["cost"].goal_text(view, row)},
        ("", "ranks"),
        "run_mpi_bench.sh",
    ),
    # The stacks and spills of the programs of tests/mpi.
    "reports": table(
        program_rows("mpi/report"),
        report_columns,
        "program",
        ["Not measured yet: `scripts/mpi_report.py` prints them."],
        "Bytes, {origin}",
    ),
}

# --- docs/design/mpi_programs.md

STEPS = {True: "yes", False: "**no**", None: DASH}


def others(data):
    """Programs that nobody here wrote, by scripts/mpi_programs.py: the last commit of each."""
    found = {}
    for record in data.matching(None, "mpi/others", {}):
        params = record["params"]
        entry = found.setdefault((params["repository"], params["program"]), {})
        if entry and entry["commit"] != params["commit"]:
            entry.clear()
        entry |= {"commit": params["commit"], "compiles": params["compiles"]}
        entry[params["device"]] = params
    if not found:
        return ["Not tried yet: `scripts/mpi_programs.py --json` prints the records."]
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
    counts = []
    for nth, device in ((3, "CPU"), (4, "GPU")):
        good = sum(row[nth].startswith("yes") for row in rows)
        counts.append(f"{good} of {sum(row[nth] != DASH for row in rows)} on the {device}")
    compiled = sum(row[2] == "yes" for row in rows)
    head = ["program", "repository, commit", "compiles", "CPU (ranks)", "GPU (ranks)", "reason"]
    return [
        f"{compiled} of {len(rows)} programs compile. Equal output: {', '.join(counts)}.",
        "",
        *markdown(head, rows, right=False),
    ]


OTHERS = {"others": others}

# --- docs/design/mpi_analysis.md

OPERATIONS = {
    "reduce": "`MPI_Reduce`",
    "broadcast": "`MPI_Bcast`",
    "alltoall": "`MPI_Alltoall`",
    "messages": "all to all by allocated messages",
}
QUANTITIES = {"gflops": "Gflop/s", "malloc": "µs", "free": "µs"}
ORDERS = {
    "walk": "all read in order",
    "apart": "in order, from an own first element",
    "random": "in random order",
    "single": "one rank of a warp reads in order",
}
# How much better Quarry with classes is than CUDA's malloc.
GAIN = last("cuda", "collective", write=quotient(rounded))
RATE_GAIN = last("collective", "cuda", write=quotient(rounded))


def pivoted(bench, keys, column, titles, **selection):
    """Rows of a pivot in the order of its keys. `titles` gets their values."""

    def rows(view):
        found = pivot(view.data, bench, keys, column, **selection)
        return {titles(*key): row for key, row in sorted(found.items())}

    return rows


def workload_rows(view):
    rows = []
    for quantity, unit in QUANTITIES.items():
        bench, keys = f"mpi/workload/{quantity}", ("workload", "ranks", "floats")
        found = pivot(view.data, bench, keys, "malloc", arrays=not_forms)
        for (workload, ranks, floats), row in sorted(found.items()):
            title = f"{workload} work" if quantity == "gflops" else f"`{quantity}`"
            if quantity == "gflops" or workload == "linear":
                row["gain"] = RATE_GAIN if quantity == "gflops" else GAIN
                rows.append(((title, f"{ranks:,}", f"{floats}", unit), row))
    return rows


def array_rows(view):
    found = {
        (f"{workload} work", ranks, f"{floats} floats"): row
        for (workload, ranks, floats), row in pivot(
            view.data, "mpi/workload/gflops", ("workload", "ranks", "floats"), "arrays"
        ).items()
    }
    for (order, *rest, doubles), row in pivot(
        view.data, "mpi/arrays", ("order", "ranks", "doubles"), "arrays"
    ).items():
        found[ORDERS[order], *rest, f"{doubles:,} doubles"] = row
    return {
        (title, f"{ranks:,}", size, row[FORMS[1]][-1].unit): row
        for (title, ranks, size), row in found.items()
        if all(form in row and row[form][-1].median is not None for form in FORMS)
    }


def arm_rows(view):
    """Those with all points. The key of a point is its quantity and how it was compiled."""
    keys, found = ("arms", "work", "ranks", "floats"), {}
    for quantity in ("malloc", "work"):
        for key, row in pivot(view.data, f"mpi/arms/{quantity}", keys, "compiled").items():
            points = {(quantity, compiled): point for compiled, point in row.items()}
            found[key] = found.get(key, {}) | points
    order = sorted(found, key=lambda key: (key[0] != "long", key[1] != "together", key[2:]))
    return {
        (f"{kind}, work {work}", f"{ranks:,}", f"{floats}"): found[kind, work, ranks, floats]
        for kind, work, ranks, floats in order
        if set(ARMS) <= set(found[kind, work, ranks, floats])
    }


ARMS = [(quantity, calls) for quantity in ("malloc", "work") for calls in ("two calls", "one call")]


def arm_columns():
    for quantity, title in (("malloc", "`malloc`"), ("work", "work")):
        keys = [(quantity, calls) for calls in ("two calls", "one call")]
        yield f"{title}, two calls", last(keys[0])
        yield "one call", last(keys[1])
        yield "ratio", last(*keys, write=quotient(value_text))


def good_runs(row, name):
    return [point for point in row.get(name, []) if point.median is not None]


def all_runs(name):
    """The median of all runs, and in brackets the smallest and the largest."""

    def text(view, row):
        points = good_runs(row, name)
        view.seen += points
        values = [point.median for point in points]
        numbers = values and [median(values), min(values), max(values)]
        return range_text(numbers, 0, 1, 2) if values else "failed"

    return text


def class_gain(view, row):
    runs = [[p.median for p in good_runs(row, name)] for name in ("dynamic", "collective")]
    return f"{median(runs[0]) / median(runs[1]):.2f}" if all(runs) else DASH


def no_allocation(view):
    found = {r["params"]["program"]: r for r in view.data.matching(None, "mpi/classes", {})}
    names = (f"`{name}`" for name, record in sorted(found.items()) if not record["value"])
    return {"names": ", ".join(names)}


ANALYSIS = {
    # Ranks that allocate in two arms of a branch, with two calls and with one.
    "arms": table(
        arm_rows,
        list(arm_columns()),
        ("arms", "ranks", "floats"),
        "run_mpi_arms_bench.sh",
        "Microseconds, {origin}",
    ),
    "arrays": table(
        array_rows,
        {form: last(form) for form in FORMS}
        | {"ratio": last(*reversed(FORMS), write=quotient("{:.2f}".format))},
        ("", "ranks", "array", "unit"),
        "run_mpi_arrays_bench.sh",
    ),
    # The classes of the allocations of tests/mpi/programs.
    "classes": Table(
        missing=["Not counted yet: `scripts/mpi_report.py` counts them."],
        any_machine=True,
        head="program",
        after="No allocation: {names}.",
        words=no_allocation,
        rows=program_rows("mpi/classes"),
        columns={
            kind: last(1, write=lambda point, kind=kind: f"{point.params[kind]}")
            for kind in ("CU", "CV", "NO")
        },
        cell=last,
    ),
    # The seed's figure 5.
    "operations": table(
        pivoted(
            "mpi/operation/time",
            ("operation", "ranks", "doubles"),
            "malloc",
            lambda name, ranks, doubles: (OPERATIONS[name], f"{ranks:,}", f"{doubles}"),
            arrays=not_forms,
        ),
        last_of(MALLOCS) | {"ratio": GAIN},
        ("", "ranks", "doubles"),
        "run_mpi_malloc_bench.sh",
        "Milliseconds, {origin}",
    ),
    # The programs of tests/mpi/programs. Each run is a record.
    "programs": table(
        pivoted(
            "mpi/program/time",
            ("program", "ranks"),
            "malloc",
            lambda program, ranks: (f"`{program}`", f"{ranks:,}"),
        ),
        {MALLOCS[name]: all_runs(name) for name in ("cuda", "dynamic", "collective")}
        | {"what classes gain": class_gain},
        ("program", "ranks"),
        "run_mpi_malloc_bench.sh",
        "Milliseconds, {origin}",
    ),
    # The seed's figures 1 to 4: the rate of the work, and the time of malloc and free.
    "workloads": table(
        workload_rows,
        last_of(MALLOCS, median_of) | {"ratio": lambda view, row: row["gain"](view, row)},
        ("", "ranks", "floats", "unit"),
        "run_mpi_malloc_bench.sh",
    ),
}
