# SPDX-License-Identifier: Apache-2.0
"""The figures in sentences of docs/design, by name. They come from bench/results."""

import statistics

import opencl_figures
import pool_figures
from bench_records import machines, points, value_text
from figures import HOST_CASES, lookup_case

NOT_MEASURED = "(not measured yet)"


def measurement(bench, selection, unit, allocator="quarry", digits=None, machine_name=None):
    """The median of a measurement, and its machine.

    The machine is `machine_name`, or else the first one that has the measurement, GPUs first.
    """

    def text(records):
        for machine in [machine_name] if machine_name else machines(records):
            found = (
                points(records, machine, bench, selection=selection).get(allocator, {}).get(None)
            )
            if found and found.median is not None:
                value = found.median * (100 if unit == "%" else 1)
                number = f"{value:.{digits}f}" if digits is not None else value_text(value)
                return f"{number} {unit} on {machine}"
        return NOT_MEASURED

    return text


def quotient(slow, fast):
    """The minimum and the maximum quotient of two allocators' pairs, over the cases of pools."""

    def text(records):
        for machine in machines(records):
            found = []
            for case in HOST_CASES:
                allocators = pool_figures.runs(records, machine, "host/pool/pair", case.selection())
                if slow in allocators and fast in allocators:
                    pair = [statistics.median(allocators[name].medians) for name in (slow, fast)]
                    found.append(pair[0] / pair[1])
            if found:
                return f"{min(found):.1f} to {max(found):.1f} on {machine}"
        return NOT_MEASURED

    return text


def strategy_quotient(slow, fast):
    """The minimum and the maximum quotient of two strategies' pairs, over simulated memory."""

    def text(records):
        for machine in machines(records):
            found = []
            for case in HOST_CASES:
                allocators = points(
                    records, machine, "host/strategy/pair", selection=case.selection()
                )
                pair = [allocators.get(name, {}).get(None) for name in (slow, fast)]
                if all(pair):
                    found.append(pair[0].median / pair[1].median)
            if found:
                return f"{min(found):.1f} to {max(found):.1f} on {machine}"
        return NOT_MEASURED

    return text


def lookup(live):
    """The time of a lookup as docs/plots shows it: the median of a day's runs."""

    def text(records):
        for machine in machines(records):
            selection = lookup_case(live)
            found = pool_figures.runs(records, machine, "host/registry/find", selection)
            if "quarry" in found:
                return f"{value_text(found['quarry'].median_point().median)} ns on {machine}"
        return NOT_MEASURED

    return text


def opencl(name, bench, selection, unit, allocator="quarry"):
    """The same measurement on PoCL and on a GPU: `opencl-NAME-cpu` and `opencl-NAME-gpu`."""

    def on(device):
        machine = opencl_figures.DEVICES[device][1]
        text = measurement(bench, selection, unit, allocator, machine_name=machine)
        return lambda records: text(opencl_figures.records_of(records, device))

    return {f"opencl-{name}-cpu": on("pocl"), f"opencl-{name}-gpu": on("gpu")}


VALUES = {
    "lookup-thousand": lookup(1000),
    "lookup-million": lookup(1_000_000),
    "registers": measurement("heap/registers/malloc", {}, "registers"),
    "metadata": measurement("heap/init/metadata", {"heap_bytes": 8 << 30}, "%", digits=2),
    "malloc-all": measurement("heap/scaling/malloc", {"threads": 1 << 20}, "µs"),
    "stream-by-pool": quotient("quarry-stream", "quarry"),
    "fast-by-segregated": strategy_quotient("segregated_fit", "fast_fit"),
    **opencl("pair", "opencl/pair", {"size": 4}, "ns"),
    **opencl("pairs-4608", "opencl/pairs", {"variance": "none", "items": 4608}, "ms"),
    **opencl("pairs-16384", "opencl/pairs", {"variance": "none", "items": 16384}, "ms"),
    **opencl("pairs-65536", "opencl/pairs", {"variance": "none", "items": 65536}, "ms"),
    **opencl("allocate", "opencl/allocate", {"items": 16384}, "ms"),
    **opencl("pairs-million", "opencl/pairs", {"variance": "high", "items": 1048576}, "ms"),
    **opencl("allocate-group", "opencl/allocate", {"items": 16384}, "ms", allocator="quarry group"),
    **opencl(
        "allocate-reserve", "opencl/allocate", {"items": 16384}, "ms", allocator="quarry reserve"
    ),
    **opencl("allocate-ring", "opencl/allocate", {"items": 16384}, "ms", allocator="ring"),
    **opencl("spans-bitmap", "opencl/free_list", {"items": 64}, "ms", allocator="bitmap"),
    **opencl("spans-queue", "opencl/free_list", {"items": 64}, "ms", allocator="queue"),
    **opencl("graph", "opencl/graph", {"items": 64}, "ms"),
    **opencl("graph-reserve", "opencl/graph", {"items": 64}, "ms", allocator="quarry reserve"),
    **opencl("graph-ring", "opencl/graph", {"items": 64}, "ms", allocator="ring"),
    **opencl("graph-4608", "opencl/graph", {"items": 4608}, "ms"),
    **opencl(
        "graph-4608-reserve", "opencl/graph", {"items": 4608}, "ms", allocator="quarry reserve"
    ),
    **opencl("graph-large", "opencl/graph", {"items": 65536, "edges": 1 << 24}, "ms"),
    **opencl(
        "graph-large-reserve",
        "opencl/graph",
        {"items": 65536, "edges": 1 << 24},
        "ms",
        allocator="quarry reserve",
    ),
    **opencl(
        "graph-large-ring",
        "opencl/graph",
        {"items": 65536, "edges": 1 << 24},
        "ms",
        allocator="ring",
    ),
    **opencl("graph-4608-ring", "opencl/graph", {"items": 4608}, "ms", allocator="ring"),
}
