# SPDX-License-Identifier: Apache-2.0
"""Figures that stand in a sentence of docs/design, from bench/results, by name."""

import statistics

import pool_figures
from bench_records import machines, points, value_text
from figures import HOST_CASES, looking

NONE = "(not measured yet)"


def one(bench, where, unit, allocator="quarry", digits=None):
    """The median of one measurement, with its machine: the first that has it, GPUs first."""

    def text(records):
        for machine in machines(records):
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


VALUES = {
    "lookup-thousand": lookup(1000),
    "lookup-million": lookup(1_000_000),
    "registers": one("heap/registers/malloc", {}, "registers"),
    "metadata": one("heap/init/metadata", {"heap_bytes": 8 << 30}, "%", digits=2),
    "malloc-all": one("heap/scaling/malloc", {"threads": 1 << 20}, "µs"),
    "stream-by-pool": quotient("quarry-stream", "quarry"),
    "fast-by-segregated": strategy_quotient("segregated_fit", "fast_fit"),
}
