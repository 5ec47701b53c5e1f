# SPDX-License-Identifier: Apache-2.0
"""Figures that stand in a sentence of docs/design, from bench/results, by name."""

import statistics

import pool_figures
from bench_records import machines, points, value_text
from figures import HOST_CASES, looking

NONE = "(not measured yet)"


def one(bench, where, unit, allocator="quarry", digits=None, on=None):
    """The median of one measurement, with its machine: `on`, or the first that has it, GPUs first."""

    def text(records):
        for machine in [on] if on else machines(records):
            found = points(records, machine, bench, where=where).get(allocator, {}).get(None)
            if found and found.median is not None:
                value = found.median * (100 if unit == "%" else 1)
                said = f"{value:.{digits}f}" if digits is not None else value_text(value)
                return f"{said} {unit} on {machine}"
        return NONE

    return text


def quotient(slow, fast):
    """The least and the greatest quotient of two allocators' pairs, over the cases of pools."""

    def text(records):
        for machine in machines(records):
            found = []
            for case in HOST_CASES:
                of = pool_figures.runs(records, machine, "host/pool/pair", case.where())
                if slow in of and fast in of:
                    pair = [statistics.median(of[name].medians) for name in (slow, fast)]
                    found.append(pair[0] / pair[1])
            if found:
                return f"{min(found):.1f} to {max(found):.1f} on {machine}"
        return NONE

    return text


def strategy_quotient(slow, fast):
    """The same over simulated memory."""

    def text(records):
        for machine in machines(records):
            found = []
            for case in HOST_CASES:
                of = points(records, machine, "host/strategy/pair", where=case.where())
                pair = [of.get(name, {}).get(None) for name in (slow, fast)]
                if all(pair):
                    found.append(pair[0].median / pair[1].median)
            if found:
                return f"{min(found):.1f} to {max(found):.1f} on {machine}"
        return NONE

    return text


def lookup(live):
    """As docs/plots shows it: the median of a day's runs."""

    def text(records):
        for machine in machines(records):
            where = looking(live)
            found = pool_figures.runs(records, machine, "host/registry/find", where)
            if "quarry" in found:
                return f"{value_text(found['quarry'].median_point().median)} ns on {machine}"
        return NONE

    return text


def opencl(name, bench, where, unit, allocator="quarry"):
    """The same measurement on PoCL and on a GPU: `opencl-NAME-cpu` and `opencl-NAME-gpu`."""
    return {
        f"opencl-{name}-{kind}": one(bench, where, unit, allocator, on=machine)
        for kind, machine in (("cpu", "x86-64-2-core-vm"), ("gpu", "nvidia-h200"))
    }


VALUES = {
    "lookup-thousand": lookup(1000),
    "lookup-million": lookup(1_000_000),
    "registers": one("heap/registers/malloc", {}, "registers"),
    "metadata": one("heap/init/metadata", {"heap_bytes": 8 << 30}, "%", digits=2),
    "malloc-all": one("heap/scaling/malloc", {"threads": 1 << 20}, "µs"),
    "stream-by-pool": quotient("quarry-stream", "quarry"),
    "fast-by-segregated": strategy_quotient("segregated_fit", "fast_fit"),
    **opencl("pair", "opencl/pair", {"size": 4}, "ns"),
    **opencl("pairs-4608", "opencl/pairs", {"variance": "none", "items": 4608}, "ms"),
    **opencl("pairs-16384", "opencl/pairs", {"variance": "none", "items": 16384}, "ms"),
    **opencl("pairs-65536", "opencl/pairs", {"variance": "none", "items": 65536}, "ms"),
    **opencl("allocate", "opencl/allocate", {"items": 16384}, "ms"),
    **opencl("pairs-million", "opencl/pairs", {"variance": "high", "items": 1048576}, "ms"),
    **opencl("allocate-group", "opencl/allocate", {"items": 16384}, "ms", allocator="quarry group"),
    **opencl("allocate-ring", "opencl/allocate", {"items": 16384}, "ms", allocator="ring"),
    **opencl("graph", "opencl/graph", {"items": 64}, "ms"),
    **opencl("graph-group", "opencl/graph", {"items": 64}, "ms", allocator="quarry group"),
    **opencl("graph-ring", "opencl/graph", {"items": 64}, "ms", allocator="ring"),
    **opencl("graph-4608", "opencl/graph", {"items": 4608}, "ms"),
    **opencl("graph-4608-group", "opencl/graph", {"items": 4608}, "ms", allocator="quarry group"),
    **opencl("graph-4608-ring", "opencl/graph", {"items": 4608}, "ms", allocator="ring"),
}
