# SPDX-License-Identifier: Apache-2.0
"""Compares ways to tell temporary allocations from permanent ones, and prints JSON lines.

usage: trace_separation.py TRACE...
The packages quarry and scikit-learn must be importable. For each trace and way, several lifetimes
count as temporary; the one that needs least memory on the first half of the trace is chosen. The
value is the peak of the reserved bytes on the other half, in two pools with default options. `one
pool`: without separation. `size`, `call_site`, `call_site_and_size`: the rules of quarry.separate.
`tree`: a decision tree of at most 8 leaves over the size and the call site (scikit-learn); `deep
tree`: without that limit. QUARRY_COMMIT and QUARRY_MACHINE are the commit and the machine.
"""

import datetime
import json
import os
import sys
import tempfile
from pathlib import Path

import numpy as np
from quarry import Kind, RoutingTable, learn_routes, read_trace, replay
from quarry.report.lifetimes import lifetimes_of
from quarry.traces import Trace
from sklearn.tree import DecisionTreeClassifier

LIMITS = [50, 200, 1000, 5000, 20_000]
RULES = ["size", "call_site", "call_site_and_size"]
TREES = {"tree": 8, "deep tree": None}


def features(events):
    """A column with the size, and a column of 0 and 1 for each call site."""
    sites = events["call_site"]
    return np.column_stack([events["size"], sites[:, None] == np.arange(sites.max() + 1)])


def tree_table(trace, learned, limit, leaves):
    """Routes each size and call site of the trace as a tree says that has seen the first part."""
    lifetimes = lifetimes_of(learned)
    is_temporary = (lifetimes.end < len(learned)) & (lifetimes.end - lifetimes.start < limit)
    if is_temporary.all() or not is_temporary.any():
        return table_with([])
    allocations = trace.events[trace.events["kind"] == Kind.ALLOCATE]
    width = features(allocations).shape[1]
    known = features(learned.events[lifetimes.start])
    known = np.pad(known, ((0, 0), (0, width - known.shape[1])))
    tree = DecisionTreeClassifier(max_leaf_nodes=leaves, random_state=1).fit(known, is_temporary)
    pairs = np.unique(allocations[["size", "call_site"]])
    answers = tree.predict(np.pad(features(pairs), ((0, 0), (0, width - features(pairs).shape[1]))))
    return table_with(
        f"1 {size} {size} {trace.call_sites[site]}"
        for (size, site), is_yes in zip(pairs, answers)
        if is_yes and site != 0
    )


def table_with(lines):
    with tempfile.NamedTemporaryFile("w", suffix=".routes") as file:
        file.write("\n".join(["quarry-routes 1", *lines, ""]))
        file.flush()
        return RoutingTable.load(file.name)


def later_part(trace, split):
    """The events from `split` on, after the allocations in use there."""
    lifetimes = lifetimes_of(trace)
    is_live = (lifetimes.start < split) & (lifetimes.end >= split)
    events = np.concatenate([trace.events[lifetimes.start[is_live]], trace.events[split:]])
    return Trace(events, trace.call_sites, format=trace.format, path=trace.path)


def peak(trace, table):
    return replay(trace, routing=table).pool.peak_reserved


def measure(path):
    trace = read_trace(path)
    split = len(trace) // 2
    learned = Trace(trace.events[:split], trace.call_sites, format=trace.format, path=trace.path)
    rest = later_part(trace, split)
    name = Path(path).name.split(".")[0]
    print_line(name, "one pool", replay(rest).pool.peak_reserved)
    ways = {
        rule: lambda limit, rule=rule: learn_routes(learned, key=rule, temporary_events=limit)
        for rule in RULES
    }
    for tree, leaves in TREES.items():
        ways[tree] = lambda limit, leaves=leaves: tree_table(trace, learned, limit, leaves)
    for way, table_of in ways.items():
        table = min((table_of(limit) for limit in LIMITS), key=lambda table: peak(learned, table))
        print_line(name, way, peak(rest, table))


def print_line(trace, way, value):
    record = {
        "bench": "trace/separate",
        "params": {"trace": trace, "allocator": way},
        "value": value,
        "unit": "B",
        "machine": os.environ.get("QUARRY_MACHINE", "unknown"),
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "commit": os.environ.get("QUARRY_COMMIT", "unknown"),
    }
    print(json.dumps(record, separators=(",", ":")), flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    for argument in sys.argv[1:]:
        measure(argument)
