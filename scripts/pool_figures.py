# SPDX-License-Identifier: Apache-2.0
"""Writes the measured parts of docs/design/pools.md and pool_costs.md from bench/results."""

import statistics
from dataclasses import dataclass

from bench_records import Point, machines, origin, points, value_text
from figures import HOST_CASES, POOL_NAMES, STRATEGIES
from markdown import first_with, missing, table


@dataclass
class Runs:
    """The medians of all runs of one case on the last day of a machine and an allocator."""

    medians: list
    point: Point

    def median_point(self):
        self.point.values["median"] = statistics.median(self.medians)
        return self.point

    def text(self):
        middle = value_text(statistics.median(self.medians))
        low, high = value_text(min(self.medians)), value_text(max(self.medians))
        return middle if low == high else f"{middle} ({low}–{high})"


def runs(records, machine, bench, selection):
    """{allocator: Runs}. Runs of one date and commit belong together."""
    found = {}
    for record in records:
        params = record["params"]
        if (
            record["machine"] != machine
            or record["bench"] != bench
            or "allocator" not in params
            or params.get("statistic", "median") != "median"
            or record["value"] is None
            or any(params.get(name) != value for name, value in selection.items())
        ):
            continue
        origin_key = (record["date"], record.get("commit") or "unknown")
        group = found.get(params["allocator"])
        if group is None or (group.point.date, group.point.commit) != origin_key:
            point = Point(unit=record["unit"], date=origin_key[0], commit=origin_key[1])
            group = found[params["allocator"]] = Runs([], point)
        group.medians.append(record["value"])
    return found


def pairs(records):
    """The time of a pair with each allocator in real memory, and the reserved memory."""
    lines = []
    for machine in machines(records):
        times = [runs(records, machine, "host/pool/pair", case.selection()) for case in HOST_CASES]
        reserved = [
            runs(records, machine, "host/pool/held_per_live", case.selection())
            for case in HOST_CASES
        ]
        names = [name for name in POOL_NAMES if any(name in series for series in times)]
        names += sorted(
            {n for series in times for n in series if n.startswith("torch-")} - set(names)
        )
        if not names:
            continue
        shown = [i for i, series in enumerate(times) if series]
        rows = []
        for name in names:
            row = [POOL_NAMES.get(name, name)]
            for i in shown:
                if name not in times[i]:
                    row.append("–")
                    continue
                memory = reserved[i].get(name)
                row.append(times[i][name].text() + (f"; {memory.text()}" if memory else ""))
            rows.append(row)
        everything = [series[name].point for series in times for name in series]
        memory = "device" if "cudaMalloc" in names else "host"
        if memory == "device":
            rows.insert(0, ["*goal, ns*", *(str(HOST_CASES[i].goal) for i in shown)])
        head = [f"{machine}, {memory} memory", *(HOST_CASES[i].title for i in shown)]
        lines += [*table(head, rows), "", f"{origin(everything)}.", ""]
    return lines[:-1] or missing("`host_pool_bench`")


def strategies(records, cases=HOST_CASES, traces=((80, 1), (60, 7), (120, 5))):
    """The time and the memory of each strategy, over simulated memory."""
    machine = first_with(records, ["host/strategy/pair", "host/strategy/step"])
    if machine is None:
        return missing("`host_strategies_bench`")
    columns = [(case.title, "pair", case.selection()) for case in cases]
    columns += [
        (f"trace, seed {seed}, {steps} steps", "step", {"steps": steps, "seed": seed})
        for steps, seed in traces
    ]
    rows, everything = [], []
    for name, title in STRATEGIES.items():
        row = [title]
        for _, kind, selection in columns:
            found = [
                points(records, machine, f"host/strategy/{bench}", selection=selection)
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
        "of a step of the trace; median); "
        "peak of the reserved bytes ÷ peak of the allocated bytes.",
        "",
        *table(["", *(title for title, _, _ in columns)], rows),
    ]


def excess(records):
    """The memory that strategies reserve beyond the peak use, over many traces."""
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
    head = ["placement; blocks of at least", *blocks.values()]
    return [*table(head, rows), "", f"{origin(everything)}."]


def bookkeeping(records):
    """The resident bytes for each live allocation."""
    bench = "host/pool/bookkeeping"
    columns = (100, 1000, 10_000, 100_000, 1_000_000)
    lines = []
    for machine in machines(records):
        rows, everything = [], []
        for mean in (64, 4096):
            for tracked, title in (("no", "not tracked"), ("yes", "tracked")):
                selection = {"mean": mean, "tracked": tracked}
                found = points(records, machine, bench, "live", selection).get("quarry", {})
                texts = [value_text(found[n].median) if n in found else "–" for n in columns]
                if found:
                    rows.append([f"mean of {mean} B, {title}", *texts])
                    everything += found.values()
        if rows:
            head = [
                f"resident bytes for each allocation on {machine}",
                *(f"{n:,} allocated" for n in columns),
            ]
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
            series = found[name]
            if name not in work or not {1, 2} <= set(series):
                continue
            rates = [series[n].median for n in (1, 2)]
            texts = [*map(value_text, rates), value_text(rates[1] / rates[0])]
            texts += [value_text(work[name][n].median) for n in (1, 2)]
            point = handed.get(name, {}).get(None)
            texts.append(value_text(point.median) if point else "–")
            rows.append([POOL_NAMES.get(name, name), *texts])
            everything += series.values()
        if rows:
            head = [f"64 B on {machine}", "1 thread, Mops/s", "2 threads, Mops/s", "÷"]
            head += ["processor time of a pair, ns: 1", "2", "handed over"]
            lines += [*table(head, rows), "", f"{origin(everything)}.", ""]
    return lines[:-1] or missing("`host_threads_bench`")


MESH = [
    ("pool ÷ malloc with its defaults", "host/mesh/pool_by_libc", "defaults"),
    ("pool ÷ malloc that keeps freed memory", "host/mesh/pool_by_libc", "keeps"),
    ("pool ÷ mimalloc", "host/mesh/pool_by_mimalloc", "defaults"),
    ("tracked ÷ not tracked", "host/mesh/tracked_by_pool", "defaults"),
]


def mesh(records):
    lines = []
    for machine in machines(records):
        rows, everything, meshes = [], [], []
        for title, bench, setting in MESH:
            by_size = {}
            for record in records:
                params = record["params"]
                if (
                    record["machine"] == machine
                    and record["bench"] == bench
                    and params.get("malloc") == setting
                    and params.get("statistic", "median") == "median"
                    and record["value"] is not None
                ):
                    by_size[params["mesh"]] = record
            if not by_size:
                continue
            meshes = meshes or sorted(by_size)
            texts = [f"{by_size[n]['value']:.2f}" if n in by_size else "–" for n in meshes]
            rows.append([title, *texts])
            everything += [
                Point(date=r["date"], commit=r.get("commit") or "unknown") for r in by_size.values()
            ]
        if rows:
            head = [f"time of a step on {machine}, n × n", *(str(n) for n in meshes)]
            lines += [*table(head, rows), "", f"Medians of ratios, {origin(everything)}.", ""]
    return lines[:-1] or missing("`mesh_bench`")
