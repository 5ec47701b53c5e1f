# SPDX-License-Identifier: Apache-2.0
"""Tables of host pools: docs/design/pools.md and pool_costs.md."""

from dataclasses import dataclass

from .names import POOL_NAMES, STRATEGIES
from .records import range_text, value_text
from .table import DASH, Table, at, digits, joined, ratio, value

KIB, MIB = 1 << 10, 1 << 20


@dataclass(frozen=True)
class HostCase:
    """A case of host_pool_bench: it replaces a random one of `live` allocations."""

    title: str
    live: int
    min_size: int
    max_size: int
    goal: int | None = None  # ns for a pair

    def selection(self):
        sizes = {"least": self.min_size, "most": self.max_size, "sizes": "uniform"}
        return {"live": self.live, **sizes}


HOST_CASES = [
    HostCase("64 B, nothing else allocated", 1, 64, 64),
    HostCase("256 B, 1000 allocated", 1000, 256, 256, 25),
    HostCase("1 to 4096 B, 10,000 allocated", 10_000, 1, 4 * KIB, 40),
    HostCase("1 B to 1 MiB, 10,000 allocated", 10_000, 1, MIB, 60),
    HostCase("1 KiB to 64 MiB, 300 allocated", 300, KIB, 64 * MIB, 60),
]


def lookup_case(live):
    """The params of a case of host_lookup_bench."""
    return {"live": live, "mean": 64, "where": "begin", "busy": "no"}


def runs(view, selection):
    """{allocator: Point} of all runs of the last day."""
    selection = {name: value for name, value in selection.items() if name != "allocator"}
    return view.data.runs(view.machine, selection.pop("bench"), selection)


def run_text(view, selection):
    """The median of the runs, and in brackets the least and the greatest."""
    point = runs(view, selection).get(selection["allocator"])
    if point is None:
        return None
    view.seen.append(point)
    values = {"median": point.median, "low": min(point.runs), "high": max(point.runs)}
    text = range_text(values, "median", "low", "high")
    return (
        value_text(point.median)
        if value_text(values["low"]) == value_text(values["high"])
        else text
    )


def pair_text(view, selection):
    """The time of a pair and the reserved memory, if it was measured; or the goal."""
    selection = dict(selection)
    goal = selection.pop("goal")
    if selection["allocator"] == "goal":
        return DASH if goal is None else str(goal)
    texts = [
        run_text(view, selection | {"bench": bench})
        for bench in ("host/pool/pair", "host/pool/held_per_live")
    ]
    return texts[0] and "; ".join(filter(None, texts))


def pair_series(view):
    return [runs(view, case.selection() | {"bench": "host/pool/pair"}) for case in HOST_CASES]


def pair_rows(view):
    found = {name for series in pair_series(view) for name in series}
    others = {name for name in found if name.startswith("torch-")} - set(POOL_NAMES)
    names = [name for name in POOL_NAMES if name in found] + sorted(others)
    goal = {"*goal, ns*": {"allocator": "goal"}} if "cudaMalloc" in names else {}
    return goal | {POOL_NAMES.get(name, name): {"allocator": name} for name in names}


def memory_kind(view):
    on_device = any("cudaMalloc" in series for series in pair_series(view))
    return {"memory": "device" if on_device else "host"}


def threads_rows(view):
    found, work = (
        view.points(f"host/threads/{bench}", "threads") for bench in ("pairs", "pair_cpu")
    )
    order = list(POOL_NAMES)
    return {
        POOL_NAMES.get(name, name): {"allocator": name}
        for name in sorted(found, key=lambda name: (order + [name]).index(name))
        if name in work and {1, 2} <= set(found[name])
    }


def mesh_columns(view):
    for row in MESH.values():
        records = view.data.matching(view.machine, row["bench"], {"malloc": row["malloc"]})
        found = {record["params"]["mesh"] for record in records}
        if found:
            return {str(n): {"mesh": n} for n in sorted(found)}
    return {}


def held(view, selection):
    return value(digits(".2f"))(view, selection | {"bench": selection["bench"] + "_held"})


MESH = {
    title: {"bench": f"host/mesh/{bench}", "malloc": malloc, "allocator": None}
    for title, bench, malloc in [
        ("pool ÷ malloc with its defaults", "pool_by_libc", "defaults"),
        ("pool ÷ malloc that keeps freed memory", "pool_by_libc", "keeps"),
        ("pool ÷ mimalloc", "pool_by_mimalloc", "defaults"),
        ("tracked ÷ not tracked", "tracked_by_pool", "defaults"),
    ]
}
PATTERNS = {
    "grows": "grows",
    "refines-and-coarsens": "refines and coarsens",
    "wanders": "wanders",
    "bursts": "bursts",
    "one-peak": "one peak",
}
POLICIES = {
    "exact": "exact",
    "geometric-1.5": "geometric, by half",
    "geometric-2": "geometric, doubled",
    "hysteresis": "hysteresis",
    "history-16": "recorded history",
    "paged": "pages of its own",
}
THREADS, STEP = "host/threads/", "host/strategy/step"
POOLS = {
    "pairs": Table(
        missing="`host_pool_bench`",
        each=True,
        head="{machine}, {memory} memory",
        words=memory_kind,
        after="{origin}.",
        rows=pair_rows,
        columns=lambda view: {
            case.title: case.selection() | {"goal": case.goal}
            for case, series in zip(HOST_CASES, pair_series(view))
            if series
        },
        cell=pair_text,
    ),
    # The time and the memory of each strategy, over simulated memory.
    "strategies": Table(
        missing="`host_strategies_bench`",
        needs=("host/strategy/pair", STEP),
        before="Over simulated memory on {machine}, {origin}. Each cell: ns (of a pair, or\nof a step "
        "of the trace; median); peak of the reserved bytes ÷ peak of the allocated bytes.",
        rows=[(title, {"allocator": name}) for name, title in STRATEGIES.items()],
        columns={
            case.title: {"bench": "host/strategy/pair"} | case.selection() for case in HOST_CASES[1:]
        }
        | {
            f"trace, seed {seed}, {steps} steps": {"bench": STEP, "steps": steps, "seed": seed}
            for steps, seed in ((80, 1), (60, 7), (120, 5))
        },
        cell=joined("; ", value(), held),
    ),
}
COSTS = {
    "excess": Table(
        missing="`host_strategies_bench` (excess)",
        head="placement; blocks of at least",
        after="{origin}.",
        needs=("host/strategy/excess",),
        rows=[
            (title, {"bench": "host/strategy/excess", "allocator": name})
            for name, title in STRATEGIES.items()
        ],
        columns={
            title: {"least_block_mib": size}
            for size, title in {0: "as by default", 1: "1 MiB", 4: "4 MiB", 16: "16 MiB"}.items()
        },
        cell=lambda view, selection: (point := view.point(selection))
        and "{mean:.1f} % ({p10:.1f}–{p90:.1f})".format(**point.values),
    ),
    "bookkeeping": Table(
        missing="`host_lookup_bench` (bookkeeping)",
        each=True,
        head="resident bytes for each allocation on {machine}",
        after="{origin}.",
        rows={
            f"mean of {mean} B, {title}": {
                "bench": "host/pool/bookkeeping",
                "mean": mean,
                "tracked": tracked,
            }
            for mean in (64, 4096)
            for tracked, title in (("no", "not tracked"), ("yes", "tracked"))
        },
        columns={f"{n:,} allocated": {"live": n} for n in (100, 1000, 10_000, 100_000, 1_000_000)},
        cell=value(),
    ),
    "threads": Table(
        missing="`host_threads_bench`",
        each=True,
        head="64 B on {machine}",
        after="{origin}.",
        rows=threads_rows,
        columns={
            "1 thread, Mops/s": {"bench": THREADS + "pairs", "threads": 1},
            "2 threads, Mops/s": {"bench": THREADS + "pairs", "threads": 2},
            "÷": at(ratio({"threads": 2}, {"threads": 1}), bench=THREADS + "pairs"),
            "processor time of a pair, ns: 1": {"bench": THREADS + "pair_cpu", "threads": 1},
            "2": {"bench": THREADS + "pair_cpu", "threads": 2},
            "handed over": {"bench": THREADS + "hand_over"},
        },
        cell=value(),
    ),
    "mesh": Table(
        missing="`mesh_bench`",
        each=True,
        head="time of a step on {machine}, n × n",
        after="Medians of ratios, {origin}.",
        rows=MESH,
        columns=mesh_columns,
        cell=value(digits(".2f")),
    ),
    "arrays": Table(
        missing="`field_growth_bench`",
        each=True,
        head="{machine}: copied; reserved",
        after="{origin}.",
        keep=True,
        rows={title: {"pattern": name, "allocator": None} for name, title in PATTERNS.items()},
        columns={title: {"policy": name} for name, title in POLICIES.items()},
        cell=joined(
            "; ",
            *(
                at(value(digits(".2f")), bench=f"host/field/{kind}_per_needed")
                for kind in ("copied", "held")
            ),
        ),
    ),
    "instructions": Table(
        missing="`host_instructions_bench`",
        each=True,
        head="{machine}",
        after="{origin}.",
        rows=lambda view: {
            r["params"]["case"].replace("look-up", "lookup"): {"case": r["params"]["case"]}
            for r in view.data.matching(view.machine, "host/instructions", {})
        },
        columns={"instructions": {"bench": "host/instructions", "allocator": None}},
        cell=value(),
    ),
}
