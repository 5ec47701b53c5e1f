# SPDX-License-Identifier: Apache-2.0
"""Markdown tables, and the text for figures without a measurement."""

from bench_records import machines, points


def table(head, rows):
    """The lines of a Markdown table. The first column is text, the other columns are numbers."""
    yield "| " + " | ".join(head) + " |"
    yield "|---" + "|---:" * (len(head) - 1) + "|"
    for row in rows:
        yield "| " + " | ".join(row) + " |"


def missing(programs):
    return [f"Not measured yet: `make bench` runs {programs}."]


def first_with(records, benches, selection=None):
    """The first machine, GPUs first, that has records of all `benches`."""
    for machine in machines(records):
        if all(points(records, machine, bench, selection=selection) for bench in benches):
            return machine
    return None
