# SPDX-License-Identifier: Apache-2.0
"""Tables of Markdown, and what stands where nothing is measured."""

from bench_records import machines, points


def table(head, rows):
    """Markdown; the first column is text, the rest numbers."""
    yield "| " + " | ".join(head) + " |"
    yield "|---" + "|---:" * (len(head) - 1) + "|"
    for row in rows:
        yield "| " + " | ".join(row) + " |"


def missing(programs):
    return [f"Not measured yet: `make bench` runs {programs}."]


def first_with(records, benches, where=None):
    """The first machine, GPUs first, that has records of all `benches`."""
    for machine in machines(records):
        if all(points(records, machine, bench, where=where) for bench in benches):
            return machine
    return None
