# SPDX-License-Identifier: Apache-2.0
"""The measured parts of docs/design/pools.md, from bench/results."""

import statistics
from dataclasses import dataclass

from bench_records import Point, machines, origin, points, value_text
from figures import HOST_CASES, POOL_NAMES, STRATEGIES
from markdown import first_with, missing, table


@dataclass
class Runs:
    """Medians of all runs of one case on a machine's last day with that allocator."""

    medians: list
    point: Point

    def median_point(self):
        self.point.values["median"] = statistics.median(self.medians)
        return self.point

    def text(self):
        middle = value_text(statistics.median(self.medians))
        least, most = value_text(min(self.medians)), value_text(max(self.medians))
        return middle if least == most else f"{middle} ({least}–{most})"


def runs(records, machine, bench, where):
    """{allocator: Runs}; runs of one date and commit count together."""
    found = {}
    for record in records:
        params = record["params"]
        if (
            record["machine"] != machine
            or record["bench"] != bench
            or "allocator" not in params
            or params.get("statistic", "median") != "median"
            or record["value"] is None
            or any(params.get(name) != value for name, value in where.items())
        ):
            continue
        origin_of = (record["date"], record.get("commit") or "unknown")
        before = found.get(params["allocator"])
        if before is None or (before.point.date, before.point.commit) != origin_of:
            point = Point(unit=record["unit"], date=origin_of[0], commit=origin_of[1])
            before = found[params["allocator"]] = Runs([], point)
        before.medians.append(record["value"])
    return found


def pairs(records):
    """What all allocators take for a pair in real memory, and what ours hold."""
    lines = []
    for machine in machines(records):
        times = [runs(records, machine, "host/pool/pair", case.where()) for case in HOST_CASES]
        held = [
            runs(records, machine, "host/pool/held_per_live", case.where()) for case in HOST_CASES
        ]
        names = [name for name in POOL_NAMES if any(name in of for of in times)]
        names += sorted({n for of in times for n in of if n.startswith("torch-")} - set(names))
        if not names:
            continue
        shown = [i for i, of in enumerate(times) if of]
        rows = []
        for name in names:
            row = [POOL_NAMES.get(name, name)]
            for i in shown:
                if name not in times[i]:
                    row.append("–")
                    continue
                memory = held[i].get(name)
                row.append(times[i][name].text() + (f"; {memory.text()}" if memory else ""))
            rows.append(row)
        everything = [of[name].point for of in times for name in of]
        memory = "device" if "cudaMalloc" in names else "host"
        if memory == "device":
            rows.insert(0, ["*goal, ns*", *(str(HOST_CASES[i].goal) for i in shown)])
        head = [f"{machine}, {memory} memory", *(HOST_CASES[i].title for i in shown)]
        lines += [*table(head, rows), "", f"{origin(everything)}.", ""]
    return lines[:-1] or missing("`host_pool_bench`")


def strategies(records, cases=HOST_CASES, traces=((80, 1), (60, 7), (120, 5))):
    """Time and memory of each strategy, over simulated memory."""
    machine = first_with(records, ["host/strategy/pair", "host/strategy/step"])
    if machine is None:
        return missing("`host_strategies_bench`")
    columns = [(case.title, "pair", case.where()) for case in cases]
    columns += [
        (f"trace, seed {seed}, {steps} steps", "step", {"steps": steps, "seed": seed})
        for steps, seed in traces
    ]
    rows, everything = [], []
    for name, title in STRATEGIES.items():
        row = [title]
        for _, kind, where in columns:
            found = [
                points(records, machine, f"host/strategy/{bench}", where=where)
                .get(name, {})
                .get(None)
                for bench in (kind, f"{kind}_held")
            ]
            if not all(found):
                row.append("–")
                continue
            row.append(f"{value_text(found[0].median)}; {found[1].median:.2f}")
            everything += found
        if set(row[1:]) != {"–"}:
            rows.append(row)
    return [
        f"Over simulated memory on {machine}, {origin(everything)}. Each cell: ns (of a pair, or",
        "of a step of the trace; median); peak of the reserved bytes ÷ peak of the allocated bytes.",
        "",
        *table(["", *(title for title, _, _ in columns)], rows),
    ]


def excess(records):
    """How much more than is in use strategies hold at their peak, over many traces."""
    bench = "host/strategy/excess"
    machine = first_with(records, [bench])
    if machine is None:
        return missing("`host_strategies_bench` (excess)")
    rows, everything = [], []
    blocks = {0: "as by default", 1: "1 MiB", 4: "4 MiB", 16: "16 MiB"}
    for name, title in STRATEGIES.items():
        found = points(records, machine, bench, "least_block_mib").get(name, {})
        if not found:
            continue
        cells = [
            "{mean:.1f} % ({p10:.1f}–{p90:.1f})".format(**found[n].values) if n in found else "–"
            for n in blocks
        ]
        rows.append([title, *cells])
        everything += found.values()
    head = ["strategy; blocks of at least", *blocks.values()]
    return [*table(head, rows), "", f"{origin(everything)}."]


def bookkeeping(records):
    """Resident bytes for each live allocation."""
    bench = "host/pool/bookkeeping"
    columns = (100, 1000, 10_000, 100_000, 1_000_000)
    lines = []
    for machine in machines(records):
        rows, everything = [], []
        for mean in (64, 4096):
            for tracked, title in (("no", "not tracked"), ("yes", "tracked")):
                where = {"mean": mean, "tracked": tracked}
                found = points(records, machine, bench, "live", where).get("quarry", {})
                texts = [value_text(found[n].median) if n in found else "–" for n in columns]
                if found:
                    rows.append([f"mean of {mean} B, {title}", *texts])
                    everything += found.values()
        if rows:
            head = [f"resident bytes a live block on {machine}", *(f"{n:,} live" for n in columns)]
            lines += [*([""] if lines else []), *table(head, rows), "", f"{origin(everything)}."]
    return lines or missing("`host_lookup_bench` (bookkeeping)")


def threads(records):
    lines = []
    for machine in machines(records):
        found = points(records, machine, "host/threads/pairs", "threads")
        work = points(records, machine, "host/threads/pair_cpu", "threads")
        handed = points(records, machine, "host/threads/hand_over")
        rows, everything = [], []
        order = list(POOL_NAMES)
        for name in sorted(found, key=lambda name: (order + [name]).index(name)):
            of = found[name]
            if name not in work or not {1, 2} <= set(of):
                continue
            one, two = of[1].median, of[2].median
            texts = [value_text(one), value_text(two), value_text(two / one)]
            texts += [value_text(work[name][n].median) for n in (1, 2)]
            over = handed.get(name, {}).get(None)
            texts.append(value_text(over.median) if over else "–")
            rows.append([POOL_NAMES.get(name, name), *texts])
            everything += of.values()
        if rows:
            head = [f"64 B on {machine}", "1 thread, Mops/s", "2 threads, Mops/s", "÷"]
            head += ["processor time of a pair, ns: 1", "2", "handed over"]
            lines += [*table(head, rows), "", f"{origin(everything)}.", ""]
    return lines[:-1] or missing("`host_threads_bench`")


MESH = [
    ("pool ÷ malloc as it is set by default", "host/mesh/pool_by_libc", "defaults"),
    ("pool ÷ malloc that keeps its memory", "host/mesh/pool_by_libc", "keeps"),
    ("pool ÷ mimalloc", "host/mesh/pool_by_mimalloc", "defaults"),
    ("tracked ÷ not tracked", "host/mesh/tracked_by_pool", "defaults"),
]


def mesh(records):
    lines = []
    for machine in machines(records):
        rows, everything, meshes = [], [], []
        for title, bench, setting in MESH:
            of_mesh = {}
            for record in records:
                params = record["params"]
                if (
                    record["machine"] == machine
                    and record["bench"] == bench
                    and params.get("malloc") == setting
                    and params.get("statistic", "median") == "median"
                    and record["value"] is not None
                ):
                    of_mesh[params["mesh"]] = record
            if not of_mesh:
                continue
            meshes = meshes or sorted(of_mesh)
            texts = [f"{of_mesh[n]['value']:.2f}" if n in of_mesh else "–" for n in meshes]
            rows.append([title, *texts])
            everything += [
                Point(date=r["date"], commit=r.get("commit") or "unknown")
                for r in of_mesh.values()
            ]
        if rows:
            head = [f"time of a step on {machine}, n × n", *(str(n) for n in meshes)]
            lines += [*table(head, rows), "", f"Medians of ratios, {origin(everything)}.", ""]
    return lines[:-1] or missing("`mesh_bench`")
