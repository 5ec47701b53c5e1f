#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads the reports that oclgrind wrote to standard error, and prints those that are faults.

usage: oclgrind_reports.py FILE...      (status 1 if there is a fault)

Each invalid access or call is a fault, and so is each line that the script does not recognise. A
data race is a fault unless HANDOVERS explains it. oclgrind's detector regards barriers as
synchronisation, but not atomics. So it also reports memory that work-items hand over by atomics
within one kernel:

  - a free and the next malloc of the same memory, orders (R) and (C) of opencl/spans.cl;
  - a publication: the work-item that allocated an entry writes it, then stores its reference by an
    RMW with release order; the readers load the reference with acquire order.

ThreadSanitizer knows these orders. It checks the same lines in opencl_tests.
"""

import collections
import re
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent


class Handover(NamedTuple):
    """Accesses to memory that only their work-item reaches, until it frees or publishes it."""

    source: str  # of opencl/, or the kernel of a test
    owner: list[str]  # lines that write the memory, as they stand in the source
    readers: list[str]  # lines that read the memory after its publication
    has_atomics: bool  # other work-items use the memory by atomics after its publication


HANDOVERS = [
    Handover(
        "map.cl",
        [
            "at->key = key;",
            "at->value = value;",
            "at->next = at->chain = 0u;",
        ],
        ["if (at->key == key && quarry_load_acquire(&at->next) == 0u) return entry;"],
        True,  # a graph's lists of links are values
    ),
    Handover(
        "ordered_map.cl",
        ["at->key = key;", "at->value = value;", "at->height = height;"],
        ["if (*next == 0u || quarry_skip_entry_at(heap, *next)->key >= key) return entry;"],
        False,
    ),
    Handover(
        "queue.cl",
        [
            "ring->next = ring->pushes = ring->tail = ring->head = 0u;",
            "ring->shift = shift;",
            "ring->largest = max(largest, shift);",
            "for (uint i = 0; i < 1u << shift; ++i) laps[i] = 0u;",
        ],
        [
            "return (__global uint*)(ring + 1) + (position & ((1u << ring->shift) - 1u));",
            "return quarry_queue_value(ring, position) + (1u << ring->shift);",
            "return (position >> ring->shift) + 1u;",
            "return (((pushes >> 1u) - head) & QUARRY_QUEUE_COUNTS) >= 1u << ring->shift;",
            "uint const largest = ring == 0u ? 0u : quarry_queue_ring_at(heap, ring)->largest;",
            "quarry_ref const fresh = quarry_queue_make_ring(heap, shift, ring == 0u ? 0u : at->largest);",
        ],
        True,
    ),
    Handover("list.cl", ["*next = first;"], [], False),
    Handover(
        "graph.cl",
        ["((__global quarry_graph_link*)quarry_at(heap, link))->target = target_node;"],
        [],
        False,
    ),
    *[
        Handover(  # the kernel checks that no other work-item writes to its allocations
            kernel,
            [
                "for (uint b = 0; b < sizes[i]; ++b) bytes[b] = (uchar)(item + i);",
                "for (uint b = 0; b < sizes[i]; ++b) "
                "bad += bytes[b] != (uchar)(item + i) ? 1u : 0u;",
            ],
            [],
            has_atomics,  # a debug heap's trailers, in memory that was an allocation before
        )
        for kernel, has_atomics in (("churn", False), ("churn_in_two", True))
    ],
    Handover(
        "trailer.cl",
        [
            "while (byte != end) *byte++ = QUARRY_GAP_BYTE;",
            "for (uint i = 1u; i <= gap; ++i) wrong |= *(end - i) ^ QUARRY_GAP_BYTE;",
        ],
        [],
        True,
    ),
    Handover(  # one work-item writes a byte too many, into its trailer
        "allocate_from_reserve",
        ["for (uint i = 0; i < size + (item == guilty ? 1u : 0u); ++i) bytes[i] = 0u;"],
        [],
        True,
    ),
]

ATOMICS = "atomics_other.cl"  # oclgrind offers OpenCL 1.2, so the third tier
PROGRAMS = ["tests/opencl/*", "examples/opencl*", "src/opencl/*"]  # files with kernels
PLACE = re.compile(r"\tAt line (\d+) \(column \d+\) of ([\w.]+):")
KERNEL = re.compile(r"\tKernel: (\w+)")
# Reports of the compiler and of --check-api: tests build programs that have 1 and 2,000 errors.
IGNORED = [
    ["1 error generated."],
    ["2000 errors generated."],
    [
        "Oclgrind - OpenCL runtime error detected",
        "\tFunction: clBuildProgram",
        "\tError:    CL_BUILD_PROGRAM_FAILURE",
    ],
]
SHOWN = 3  # reports of one kind


class Report(NamedTuple):
    lines: list[str]
    kernel: str
    places: list[tuple[str, str]]  # source or kernel, and the text of the line


def program_of(kernel, root=ROOT):
    """The lines of the program with this kernel. Line 1 begins after the raw string's quote.

    A report names its kernel, but not its program. So the result is empty if several programs have
    a kernel of this name, or if none has one. A race at an unknown line is a fault.
    """
    declaration = f"__kernel void {kernel}("
    count, lines = 0, []
    for pattern in PROGRAMS:
        for path in root.glob(pattern):
            text = path.read_text(errors="replace") if path.is_file() else ""
            count += text.count(declaration)
            for program in re.findall(r'R"opencl\((.*?)\)opencl"', text, re.DOTALL):
                if declaration in program:
                    lines = program.split("\n")
    return lines if count == 1 else []


def line_of(source, kernel, number, known={}):
    key = source, kernel, number
    if key not in known:
        path = ROOT / "opencl" / source
        if path.is_file():
            lines = path.read_text().split("\n")
        else:
            source, lines = kernel, program_of(kernel)
        text = lines[number - 1].strip() if number <= len(lines) else f"unknown line {number}"
        known[key] = source, text
    return known[key]


def reports_in(path):
    """The reports of a file. Each report begins with a line that is not indented."""
    lines, kernel, places = [], "", []
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            line = line.rstrip("\n")
            if not line.strip():
                continue
            if not line.startswith("\t") and lines:
                yield Report(lines, kernel, places)
                lines, kernel, places = [], "", []
            lines.append(line)
            if found := KERNEL.match(line):
                kernel = found[1]
            elif found := PLACE.match(line):
                places.append(line_of(found[2], kernel, int(found[1])))
    if lines:
        yield Report(lines, kernel, places)


def is_owner(place):
    return any(place[0] == known.source and place[1] in known.owner for known in HANDOVERS)


def is_reader(place, owner):
    for known in HANDOVERS:
        if owner[0] != known.source or owner[1] not in known.owner:
            continue
        if known.has_atomics and place[0] == ATOMICS:
            return True
        if place[0] == known.source and place[1] in known.readers:
            return True
    return False


def is_handover(report):
    if "data race at global memory" not in report.lines[0] or len(report.places) != 2:
        return False
    first, second = report.places
    if is_owner(first):
        return is_owner(second) or is_reader(second, first)
    return is_owner(second) and is_reader(first, second)


def main(paths):
    handovers = 0
    faults = collections.defaultdict(list)
    for path in paths:
        for report in reports_in(path):
            if report.lines in IGNORED:
                continue
            if is_handover(report):
                handovers += 1
                continue
            kind = re.sub(r"0x[0-9a-f]+", "", report.lines[0])
            faults[kind, report.kernel, tuple(report.places)].append(report)
    for (kind, kernel, places), reports in faults.items():
        print(f"{len(reports)} x {kind} {'in ' + kernel if kernel else ''}")
        for source, text in places:
            print(f"    {source}: {text}")
        for report in reports[:SHOWN]:
            print("\n".join(report.lines))
    count = sum(len(reports) for reports in faults.values())
    print(f"oclgrind: {count} faults; {handovers} races explained by an atomic handover")
    return 1 if count else 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1:]))
