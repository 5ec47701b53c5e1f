# SPDX-License-Identifier: Apache-2.0
"""Tables of host pools: docs/design/pools.md and pool_costs.md."""

from .names import POOL_NAMES, STRATEGIES
from .table import Table, at, each, found, joined, lines, named, of_point, ratio, spread, value

TWO = value(".2f")


def each_machine(rows, columns, cell, head, after="{origin}.", **more):
    return Table(rows, columns, cell, head, after=after, machines="each", **more)


# --- host_pool_bench: title > params, and the goal in ns for a pair on a GPU

CASES = """
64 B, nothing else allocated > live=1 least=64 most=64 sizes=uniform goal=–
256 B, 1000 allocated > live=1000 least=256 most=256 sizes=uniform goal=25
1 to 4096 B, 10,000 allocated > live=10000 least=1 most=4096 sizes=uniform goal=40
1 B to 1 MiB, 10,000 allocated > live=10000 least=1 most=1048576 sizes=uniform goal=60
1 KiB to 64 MiB, 300 allocated > live=300 least=1024 most=67108864 sizes=uniform goal=60
"""


def is_gpu(view):
    return "nvidia" in view.machine


def pair_rows(view):
    goal = [("*goal, ns*", "allocator=goal")] if is_gpu(view) else []
    keys = view.data.points("host/pool/pair allocator=*", view.machine, ["allocator"])
    names = POOL_NAMES | {
        n: POOL_NAMES.get(n, n) for (n,) in sorted(keys) if n.startswith("torch-")
    }
    return goal + named("allocator", {n: title for n, title in names.items() if (n,) in keys})


def pair_columns(view):
    """The cases that the machine has."""
    return [pair for pair in lines(CASES) if view.point("host/pool/pair", pair[1])]


def pair(view, selection):
    """The time of a pair and the reserved memory, if it was measured; or the goal."""
    both = (at(f"host/pool/{bench}", spread()) for bench in ("pair", "held_per_live"))
    is_goal = selection["allocator"] == "goal"
    return selection["goal"] if is_goal else joined("; ", *both)(view, selection)


PAIRS = each_machine(
    pair_rows,
    pair_columns,
    pair,
    "{machine}, {memory} memory",
    words=lambda view: {"memory": "device" if is_gpu(view) else "host"},
)

# --- Each strategy, over simulated memory

STEPS = """
trace, seed 1, 80 steps > host/strategy/step steps=80 seed=1
trace, seed 7, 60 steps > host/strategy/step steps=60 seed=7
trace, seed 5, 120 steps > host/strategy/step steps=120 seed=5
"""
PAIR_CASES = [(title, case | {"bench": "host/strategy/pair"}) for title, case in lines(CASES)[1:]]
PLACEMENTS = Table(
    named("allocator", STRATEGIES),
    [PAIR_CASES, STEPS],
    joined("; ", value(), at("{bench}_held", TWO)),
    before="Over simulated memory on {machine}, {origin}. Each cell: ns (of a pair, or\nof a step "
    "of the trace; median); peak of the reserved bytes ÷ peak of the allocated bytes.",
)
BLOCKS = {0: "as by default", 1: "1 MiB", 4: "4 MiB", 16: "16 MiB"}
EXCESS = Table(
    named("allocator", STRATEGIES),
    named("least_block_mib", BLOCKS),
    at(
        "host/strategy/excess",
        of_point(lambda point: "{mean:.1f} % ({p10:.1f}–{p90:.1f})".format(**point.values)),
    ),
    "placement; blocks of at least",
    after="{origin}.",
)

# --- Other costs

THREAD_POOLS = ("quarry-arenas", "quarry-synchronized", "libc", "mimalloc")
ONE, TWO_THREADS = (f"host/threads/pairs threads={n}" for n in (1, 2))
THREADS = each_machine(
    named("allocator", {name: POOL_NAMES[name] for name in THREAD_POOLS}),
    {
        "1 thread, Mops/s": ONE,
        "2 threads, Mops/s": TWO_THREADS,
        "÷": ratio(TWO_THREADS, ONE),
        "processor time of a pair, ns: 1": "host/threads/pair_cpu threads=1",
        "2": "host/threads/pair_cpu threads=2",
        "handed over": "host/threads/hand_over",
    },
    value(),
    "64 B on {machine}",
)
TRACKED = {"no": "not tracked", "yes": "tracked"}
BOOKKEEPING = each_machine(
    each(
        "mean of {mean}, {tracked}",
        "host/pool/bookkeeping",
        TRACKED,
        mean=(64, 4096),
        tracked=TRACKED,
    ),
    each("{live} allocated", live=(100, 1000, 10_000, 100_000, 1_000_000)),
    value(),
    "resident bytes for each allocation on {machine}",
)
MESH_RATIOS = """
pool ÷ malloc with its defaults > host/mesh/pool_by_libc malloc=defaults
pool ÷ malloc that keeps freed memory > host/mesh/pool_by_libc malloc=keeps
pool ÷ mimalloc > host/mesh/pool_by_mimalloc malloc=defaults
tracked ÷ not tracked > host/mesh/tracked_by_pool malloc=defaults
"""
MESHES = found("{mesh}", "host/mesh/pool_by_libc malloc=defaults", "mesh", cells="")
HEAD = "time of a step on {machine}, n × n"
MESH = each_machine(MESH_RATIOS, MESHES, TWO, HEAD, "Medians of ratios, {origin}.")
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
BYTES = (at(f"host/field/{kind}_per_needed", TWO) for kind in ("copied", "held"))
ARRAYS = each_machine(PATTERNS, POLICIES, joined("; ", *BYTES), "{machine}: copied; reserved")
LOOKUPS = {"look-up of a first byte": "lookup of a first byte", "look-up in the midst": "lookup of an inner byte"}
OPERATIONS = found("{case}", "host/instructions", "case", LOOKUPS)
APART = {"Time and memory of placements": PLACEMENTS}
COSTS_APART = {
    "Bookkeeping of a pool": BOOKKEEPING,
    "Memory of pools beyond the peak": EXCESS,
    "Pools in a mesh code": MESH,
    "Growable arrays": ARRAYS,
    "Instructions of a pool": each_machine(OPERATIONS, {"instructions": ""}, value(), "{machine}"),
}
