# SPDX-License-Identifier: Apache-2.0
"""Tables of host pools: docs/design/pools.md and pool_costs.md."""

from .names import POOL_NAMES, STRATEGIES
from .records import select
from .table import Table, each, found, joined, lines, named, ratio, spread, value

# title > params of host_pool_bench, and the goal in ns for a pair
CASES = """
64 B, nothing else allocated > live=1 least=64 most=64 sizes=uniform goal=–
256 B, 1000 allocated > live=1000 least=256 most=256 sizes=uniform goal=25
1 to 4096 B, 10,000 allocated > live=10000 least=1 most=4096 sizes=uniform goal=40
1 B to 1 MiB, 10,000 allocated > live=10000 least=1 most=1048576 sizes=uniform goal=60
1 KiB to 64 MiB, 300 allocated > live=300 least=1024 most=67108864 sizes=uniform goal=60
"""
PAIR, TWO = "host/pool/pair", ".2f"


def pair_rows(view):
    """The goal is for GPUs."""
    allocators = {
        key for (key,) in view.data.points(f"{PAIR} allocator=*", view.machine, ["allocator"])
    }
    goal = [("*goal, ns*", "allocator=goal")] if "cudaMalloc" in allocators else []
    return goal + named("allocator", {n: POOL_NAMES[n] for n in POOL_NAMES if n in allocators})


def pair_columns(view):
    for title, case in lines(CASES):
        if view.data.point(select(case, f"{PAIR} goal=None"), view.machine):
            yield title, case


def pair(view, selection):
    """The time of a pair and the reserved memory, if it was measured; or the goal."""
    if selection["allocator"] == "goal":
        return selection["goal"]
    return joined("; ", spread(more=PAIR), spread(more="host/pool/held_per_live"))(view, selection)


def held(view, selection):
    return value(TWO)(view, select(selection, {"bench": selection["bench"] + "_held"}))


def of_strategies(bench):
    return named("allocator", STRATEGIES, bench)


def per_machine(rows, columns, cell, head, after="{origin}.", **more):
    return Table(rows, columns, cell, head, after=after, machines="each", **more)


MESH = """
pool ÷ malloc with its defaults > host/mesh/pool_by_libc malloc=defaults
pool ÷ malloc that keeps freed memory > host/mesh/pool_by_libc malloc=keeps
pool ÷ mimalloc > host/mesh/pool_by_mimalloc malloc=defaults
tracked ÷ not tracked > host/mesh/tracked_by_pool malloc=defaults
"""
PATTERNS = """
grows > pattern=grows
refines and coarsens > pattern=refines-and-coarsens
wanders > pattern=wanders
bursts > pattern=bursts
one peak > pattern=one-peak
"""
POLICIES = """
exact > policy=exact
geometric, by half > policy=geometric-1.5
geometric, doubled > policy=geometric-2
hysteresis > policy=hysteresis
recorded history > policy=history-16
pages of its own > policy=paged
"""
LOOKUPS = {f"look-up {which}": f"lookup {which}" for which in ("of a first byte", "in the midst")}
PAIRS = per_machine(
    pair_rows,
    pair_columns,
    pair,
    "{machine}, {memory} memory",
    words=lambda view: {"memory": "device" if "nvidia" in view.machine else "host"},
)
STEPS = """
trace, seed 1, 80 steps > host/strategy/step steps=80 seed=1
trace, seed 7, 60 steps > host/strategy/step steps=60 seed=7
trace, seed 5, 120 steps > host/strategy/step steps=120 seed=5
"""
# The time and the memory of each strategy, over simulated memory.
PLACEMENTS = Table(
    of_strategies("host/strategy/pair"),
    [*lines(CASES)[1:], *lines(STEPS)],
    joined("; ", value(), held),
    before="Over simulated memory on {machine}, {origin}. Each cell: ns (of a pair, or\nof a step "
    "of the trace; median); peak of the reserved bytes ÷ peak of the allocated bytes.",
)
APART = {"Time and memory of placements": PLACEMENTS}
THREAD_POOLS = ("quarry-arenas", "quarry-synchronized", "libc", "mimalloc")
TWO_THREADS, ONE_THREAD = (f"host/threads/pairs threads={n}" for n in (2, 1))
THREADS = per_machine(
    named("allocator", {name: POOL_NAMES[name] for name in THREAD_POOLS}),
    {
        "1 thread, Mops/s": ONE_THREAD,
        "2 threads, Mops/s": TWO_THREADS,
        "÷": ratio(TWO_THREADS, ONE_THREAD),
        "processor time of a pair, ns: 1": "host/threads/pair_cpu threads=1",
        "2": "host/threads/pair_cpu threads=2",
        "handed over": "host/threads/hand_over",
    },
    value(),
    "64 B on {machine}",
)
COSTS_APART = {
    "Bookkeeping of a pool": per_machine(
        each(
            "mean of {mean}, {tracked}",
            "host/pool/bookkeeping",
            {"no": "not tracked", "yes": "tracked"},
            mean=(64, 4096),
            tracked=("no", "yes"),
        ),
        each("{live} allocated", live=(100, 1000, 10_000, 100_000, 1_000_000)),
        value(),
        "resident bytes for each allocation on {machine}",
    ),
    "Memory of pools beyond the peak": Table(
        of_strategies("host/strategy/excess"),
        """
        as by default > least_block_mib=0
        1 MiB > least_block_mib=1
        4 MiB > least_block_mib=4
        16 MiB > least_block_mib=16
        """,
        lambda view, selection: (
            (point := view.point(selection))
            and "{mean:.1f} % ({p10:.1f}–{p90:.1f})".format(**point.values)
        ),
        "placement; blocks of at least",
        after="{origin}.",
    ),
    "Pools in a mesh code": per_machine(
        MESH,
        found("{mesh}", "host/mesh/pool_by_libc malloc=defaults", "mesh", cells=""),
        value(TWO),
        "time of a step on {machine}, n × n",
        "Medians of ratios, {origin}.",
    ),
    "Growable arrays": per_machine(
        PATTERNS,
        POLICIES,
        joined(
            "; ",
            value(TWO, more="host/field/copied_per_needed"),
            value(TWO, more="host/field/held_per_needed"),
        ),
        "{machine}: copied; reserved",
    ),
    "Instructions of a pool": per_machine(
        found("{case}", "host/instructions", "case", LOOKUPS),
        {"instructions": ""},
        value(),
        "{machine}",
    ),
}
