# SPDX-License-Identifier: Apache-2.0
"""Tables of GPU MPI for docs/design: benchmarks, stacks and spills, and programs of others.

Records of the benchmarks have params.system, and params.host, on which the system ran.
"""

from dataclasses import dataclass, field
from statistics import median

from bench_records import value_text, x_text
from markdown import table

SYSTEMS = {
    "quarry-gpu": "Quarry, GPU",
    "quarry-cpu": "Quarry, one core",
    "open-mpi": "Open MPI",
}
FAILURES = {"exit status 124": "no end in time", "exit status 137": "no end in time"}
NOTHING_YET = ["Not measured yet: `scripts/run_mpi_bench.sh` measures."]


@dataclass
class Row:
    """A quantity for each number of ranks. The goal is for Quarry on a GPU."""

    title: str
    bench: str
    selection: dict = field(default_factory=dict)
    goal: float | None = None
    is_at_least: bool = False  # the goal is a minimum


def exchange(calls, directions, title):
    selection = {"calls": calls, "directions": directions}
    return Row(f"neighbour exchange, {title}", "mpi/neighbours/time", selection, 10.0)


def ping_pong(size, buffer, quantity="round_trip", goal=None):
    titles = {"heap": "`malloc`", "stack": "stack", "large local": "large local variable"}
    selection = {"bytes": size, "buffer": buffer}
    words = {"round_trip": "round trip", "bandwidth": "bandwidth"}[quantity]
    title = f"ping-pong, {x_text('bytes', size)}, {titles[buffer]}, {words}"
    return Row(title, f"mpi/ping_pong/{quantity}", selection, goal, quantity == "bandwidth")


ROWS = [
    *(ping_pong(size, "heap", goal=3.0 if size == 8 else None) for size in (8, 64, 512, 4096)),
    *(ping_pong(size, "stack", goal=3.0 if size == 8 else None) for size in (8, 64, 512, 4096)),
    *(
        ping_pong(size, "heap", "bandwidth", 30.0 if size == 1 << 20 else None)
        for size in (32768, 262144, 1 << 20, 4 << 20)
    ),
    *(ping_pong(size, "large local", "bandwidth") for size in (65536, 1 << 20)),
    Row("ring, a hop", "mpi/ring/hop", goal=1.2),
    Row("barrier", "mpi/barrier/time", goal=3.0),
    Row("allreduce of 8 B", "mpi/allreduce/time"),
    exchange("sendrecv", 1, "one `MPI_Sendrecv`"),
    exchange("isend", 1, "one `MPI_Irecv`, `MPI_Isend`, `MPI_Waitall`"),
    exchange("sendrecv", 2, "both directions, `MPI_Sendrecv`"),
    exchange("isend", 2, "both directions, `MPI_Irecv`, `MPI_Isend`, `MPI_Waitall`"),
    Row("hello, whole run", "mpi/hello/run"),
]


FORMS = ("contiguous", "interleaved")


def compares_arrays(record):
    """Whether the record is of scripts/run_mpi_arrays_bench.sh."""
    return record["params"].get("arrays") in FORMS


def benchmarks_of(records):
    """The records of the benchmarks on the host with a GPU that was measured last."""
    benches = {row.bench for row in ROWS} | {"mpi/failed"}
    found = [record for record in records if record["bench"] in benches and not compares_arrays(record)]
    gpus = [r["params"]["host"] for r in found if r["params"]["system"] == "quarry-gpu"]
    return [record for record in found if gpus and record["params"]["host"] == gpus[-1]]


def latest(records, row):
    """{ranks: {system: record}}; a later record replaces an earlier one. A failed run has no value."""
    found = {}
    for record in records:
        params = record["params"]
        is_failure = record["bench"] == "mpi/failed" and params["program"] == row.bench.split("/")[1]
        is_measured = record["bench"] == row.bench and row.selection.items() <= params.items()
        if is_measured or is_failure:
            found.setdefault(params["ranks"], {})[params["system"]] = record
    return dict(sorted(found.items()))


def cell(record):
    """The median, and in brackets the tenth and the ninetieth percentile."""
    if record is None:
        return "–"
    if record["value"] is None:
        return FAILURES.get(record["params"]["error"], "failed")
    text = value_text(record["value"])
    spread = record.get("spread")
    return f"{text} ({value_text(spread['p10'])}–{value_text(spread['p90'])})" if spread else text


def goal_text(row, record):
    if row.goal is None:
        return ""
    text = f"{'≥' if row.is_at_least else '≤'} {value_text(row.goal)}"
    if record is None:
        return text
    value = record["value"]
    is_met = value is not None and (value >= row.goal if row.is_at_least else value <= row.goal)
    return f"{text}: {'met' if is_met else '**missed**'}"


def origin(records):
    """Machines, days and commits of the records."""
    machines = list(dict.fromkeys(record["machine"] for record in records))
    days = sorted({record["date"] for record in records})
    commits = list(dict.fromkeys(record["commit"][:18] for record in records))
    day = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    return f"{'; '.join(machines)}. {day}, commit{'s' * (len(commits) > 1)} {', '.join(commits)}."


def costs(records):
    """The benchmarks of bench/mpi, beside the other MPI."""
    found = benchmarks_of(records)
    rows, shown = [], []
    for row in ROWS:
        for ranks, by_system in latest(found, row).items():
            used = [by_system.get(system) for system in SYSTEMS]
            shown += [record for record in used if record]
            units = [record["unit"] for record in used if record and record["unit"]]
            unit = units[0].replace("us", "µs") if units else ""
            goal = goal_text(row, by_system.get("quarry-gpu"))
            rows.append([row.title, f"{ranks:,}", unit, *map(cell, used), goal])
    if not rows:
        return NOTHING_YET
    head = ["", "ranks", "unit", *SYSTEMS.values(), "goal"]
    return [origin(shown), "", *table(head, rows)]


def reports(records):
    """The stacks and spills of the programs of tests/mpi, by scripts/mpi_report.py."""
    found = {r["params"]["program"]: r for r in records if r["bench"] == "mpi/report"}
    if not found:
        return ["Not measured yet: `scripts/mpi_report.py` prints them."]
    limits = next(iter(found.values()))["params"]["registers"]
    head = ["program"]
    for title in ("stack", "spilled"):
        head += [f"{title}, {limit} registers" for limit in limits]
    rows = [
        [f"`{name}`", *map("{:,}".format, r["params"]["stack"] + r["params"]["spills"])]
        for name, r in sorted(found.items())
    ]
    return [f"Bytes, {origin(list(found.values()))}", "", *table(head, rows)]


STEPS = {True: "yes", False: "**no**", None: "–"}


def others(records):
    """Programs that nobody here wrote, by scripts/mpi_programs.py."""
    found = {}
    for record in records:
        if record["bench"] == "mpi/others":
            params = record["params"]
            entry = found.setdefault((params["repository"], params["program"]), {})
            if entry and entry["commit"] != params["commit"]:
                entry.clear()
            entry |= {"commit": params["commit"], "compiles": params["compiles"]}
            entry[params["device"]] = record
    if not found:
        return ["Not tried yet: `scripts/mpi_programs.py --json` prints the records."]
    rows = []
    for (repository, program), entry in sorted(found.items()):
        steps = [STEPS[entry["compiles"]]]
        reasons = []
        for device in ("cpu", "gpu"):
            record = entry.get(device)
            params = record["params"] if record else {"ranks": [], "equal": None, "reason": ""}
            ranks = ", ".join(f"{n:,}" for n in params["ranks"])
            steps.append(STEPS[params["equal"]] + (f" ({ranks})" if params["equal"] else ""))
            reasons += [params["reason"]] if params["reason"] not in ["", *reasons] else []
        rows.append([program, f"{repository} {entry['commit']}", *steps, "; ".join(reasons)])
    good = {d: sum(row[place].startswith("yes") for row in rows) for d, place in (("CPU", 3), ("GPU", 4))}
    tried = {d: sum(row[place] != "–" for row in rows) for d, place in (("CPU", 3), ("GPU", 4))}
    counts = ", ".join(f"{good[d]} of {tried[d]} on the {d}" for d in good)
    compiled = sum(row[2] == "yes" for row in rows)
    lines = [f"{compiled} of {len(rows)} programs compile. Equal output: {counts}.", ""]
    head = ["program", "repository, commit", "compiles", "CPU (ranks)", "GPU (ranks)", "reason"]
    first, _, *others_lines = table(head, rows)
    return [*lines, first, "|---" * len(head) + "|", *others_lines]  # all columns are text


MALLOCS = {
    "cuda": "CUDA's `malloc`",
    "cuda-dynamic": "header",
    "cuda-map": "no header",
    "dynamic": "Quarry, no classes",
    "collective": "Quarry, classes",
}


def compared(records, bench, keys):
    """The records of a benchmark: {values of the keys: {malloc: record}}; a later record replaces an earlier one."""
    found = {}
    for record in records:
        params = record["params"]
        if record["bench"] == bench and "malloc" in params and not compares_arrays(record):
            found.setdefault(tuple(params[key] for key in keys), {})[params["malloc"]] = record
    return dict(sorted(found.items()))


def ratio_text(by_malloc, is_rate):
    """How much better Quarry with classes is than CUDA's malloc."""
    ends = [by_malloc.get(name) for name in ("cuda", "collective")]
    if None in ends or None in (ends[0]["value"], ends[1]["value"]):
        return "–"
    first, last = (end["value"] for end in ends)
    return f"{last / first if is_rate else first / last:.3g}"


def operations(records):
    """The seed's figure 5: milliseconds of an operation."""
    titles = {"reduce": "`MPI_Reduce`", "broadcast": "`MPI_Bcast`", "alltoall": "`MPI_Alltoall`", "messages": "all to all by allocated messages"}
    rows, shown = [], []
    for (operation, ranks, doubles), by_malloc in compared(records, "mpi/operation/time", ("operation", "ranks", "doubles")).items():
        shown += by_malloc.values()
        cells = [cell(by_malloc.get(name)) for name in MALLOCS]
        rows.append([titles[operation], f"{ranks:,}", f"{doubles}", *cells, ratio_text(by_malloc, False)])
    if not rows:
        return ["Not measured yet: `scripts/run_mpi_malloc_bench.sh` measures."]
    return [f"Milliseconds, {origin(shown)}", "", *table(["", "ranks", "doubles", *MALLOCS.values(), "ratio"], rows)]


def workloads(records):
    """The seed's figures 1 to 4: the rate of the work, and the time of malloc and free."""
    units = {"gflops": "Gflop/s", "malloc": "µs", "free": "µs"}
    rows, shown = [], []
    for quantity in units:
        for (workload, ranks, floats), by_malloc in compared(records, f"mpi/workload/{quantity}", ("workload", "ranks", "floats")).items():
            if quantity != "gflops" and workload != "linear":
                continue
            shown += by_malloc.values()
            title = f"{workload} work" if quantity == "gflops" else f"`{quantity}`"
            cells = [value_text(by_malloc[name]["value"]) if name in by_malloc else "–" for name in MALLOCS]
            rows.append([title, f"{ranks:,}", f"{floats}", units[quantity], *cells, ratio_text(by_malloc, quantity == "gflops")])
    if not rows:
        return ["Not measured yet: `scripts/run_mpi_malloc_bench.sh` measures."]
    return [origin(shown), "", *table(["", "ranks", "floats", "unit", *MALLOCS.values(), "ratio"], rows)]


ORDERS = {
    "walk": "all read in order",
    "apart": "in order, from an own first element",
    "random": "in random order",
    "single": "one rank of a warp reads in order",
}


def arrays(records):
    """Contiguous and interleaved arrays, by scripts/run_mpi_arrays_bench.sh."""
    found = {}
    for record in filter(compares_arrays, records):
        params = record["params"]
        if record["bench"] == "mpi/workload/gflops":
            key = (f"{params['workload']} work", params["ranks"], f"{params['floats']} floats")
        elif record["bench"] == "mpi/arrays":
            key = (ORDERS[params["order"]], params["ranks"], f"{params['doubles']:,} doubles")
        else:
            continue
        found.setdefault(key, {})[params["arrays"]] = record
    rows, shown = [], []
    for (title, ranks, size), forms in found.items():
        if len(forms) < 2 or None in (record["value"] for record in forms.values()):
            continue
        first, last = (forms[form] for form in FORMS)
        shown += forms.values()
        ratio = f"{last['value'] / first['value']:.2f}"
        rows.append([title, f"{ranks:,}", size, last["unit"], cell(first), cell(last), ratio])
    if not rows:
        return ["Not measured yet: `scripts/run_mpi_arrays_bench.sh` measures."]
    return [origin(shown), "", *table(["", "ranks", "array", "unit", *FORMS, "ratio"], rows)]


def classes(records):
    """The classes of the allocations of tests/mpi/programs, by scripts/mpi_report.py."""
    found = {r["params"]["program"]: r for r in records if r["bench"] == "mpi/classes"}
    if not found:
        return ["Not counted yet: `scripts/mpi_report.py` counts them."]
    kinds = ("CU", "CV", "NO")
    rows = [[f"`{name}`", *(f"{r['params'][kind]}" for kind in kinds)] for name, r in sorted(found.items()) if r["value"]]
    none = [f"`{name}`" for name, r in sorted(found.items()) if not r["value"]]
    return [*table(["program", *kinds], rows), "", f"No allocation: {', '.join(none)}."]


def arms(records):
    """Ranks that allocate in two arms of a branch: the allocation and the work, with two calls and with one."""
    found = {}
    for record in records:
        params = record["params"]
        if record["bench"] in ("mpi/arms/malloc", "mpi/arms/work"):
            key = (params["arms"], params["work"], params["ranks"], params["floats"])
            found.setdefault(key, {})[record["bench"].split("/")[2], params["compiled"]] = record
    rows, shown = [], []
    for (kind, work, ranks, floats), by_run in sorted(found.items(), key=lambda each: (each[0][0] != "long", each[0][1] != "together", each[0][2:])):
        pairs = [[by_run.get((quantity, compiled)) for compiled in ("two calls", "one call")] for quantity in ("malloc", "work")]
        if not all(pairs[0] + pairs[1]):
            continue
        shown += pairs[0] + pairs[1]
        ratios = [value_text(before["value"] / after["value"]) for before, after in pairs]
        cells = [text for pair, ratio in zip(pairs, ratios) for text in (*map(cell, pair), ratio)]
        rows.append([f"{kind}, work {work}", f"{ranks:,}", f"{floats}", *cells])
    if not rows:
        return ["Not measured yet: `scripts/run_mpi_arms_bench.sh` measures."]
    head = ["arms", "ranks", "floats", "`malloc`, two calls", "one call", "ratio", "work, two calls", "one call", "ratio"]
    return [f"Microseconds, {origin(shown)}", "", *table(head, rows)]


def programs(records):
    """The programs of tests/mpi/programs with three allocators: the median of runs, each of which is a record."""
    names = ("cuda", "dynamic", "collective")
    found, shown = {}, []
    for record in records:
        params = record["params"]
        if record["bench"] == "mpi/program/time" and record["value"] is not None:
            found.setdefault((params["program"], params["ranks"]), {}).setdefault(params["malloc"], []).append(record["value"])
            shown.append(record)
    if not found:
        return ["Not measured yet: `scripts/run_mpi_malloc_bench.sh` measures."]
    rows = []
    for (program, ranks), by_malloc in sorted(found.items()):
        cells = [spread_text(by_malloc.get(name)) for name in names]
        medians = [median(by_malloc[name]) for name in names[1:]]
        rows.append([f"`{program}`", f"{ranks:,}", *cells, f"{medians[0] / medians[1]:.2f}"])
    head = ["program", "ranks", *(MALLOCS[name] for name in names), "what classes gain"]
    return [f"Milliseconds, {origin(shown)}", "", *table(head, rows)]


def spread_text(values):
    """The median, and in brackets the smallest and the largest value."""
    if not values:
        return "failed"
    return f"{value_text(median(values))} ({value_text(min(values))}–{value_text(max(values))})"


ANALYSIS = {"arms": arms, "arrays": arrays, "classes": classes, "operations": operations, "programs": programs, "workloads": workloads}
SECTIONS = {"costs": costs, "reports": reports}
OTHERS = {"others": others}
