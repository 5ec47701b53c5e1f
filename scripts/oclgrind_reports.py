#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads the reports that oclgrind wrote to standard error, and prints those that are faults.

usage: oclgrind_reports.py FILE...      (status 1 if there is a fault)

Each invalid access or call is a fault, and so is each line that the script does not recognise. A
data race is a fault unless comments in the source explain it. oclgrind's detector regards barriers
as synchronisation, but not atomics. So it also reports memory that work-items hand over by atomics
within one kernel:

  - a free and the next malloc of the same memory, orders (R) and (C) of opencl/spans.cl;
  - a publication: the work-item that allocated an entry writes it, then stores its reference by an
    RMW with release order; the readers load the reference with acquire order.

ThreadSanitizer knows these orders. It checks the same lines in opencl_tests. A comment marks each of
these accesses, at the end of its line or in the line above:

  // handover: owner            only this work-item reaches the memory, until it frees or publishes it
  // handover: owner, atomics   the same; other work-items use the memory by atomics afterwards
  // handover: reader           reads the memory after its publication, in the same source
"""

import collections
import re
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent


ATOMICS = "atomics_other.cl"  # oclgrind offers OpenCL 1.2, so the third tier
PROGRAMS = ["tests/opencl/*", "examples/opencl*", "src/opencl/*"]  # files with kernels
PLACE = re.compile(r"\tAt line (\d+) \(column \d+\) of ([\w.]+):")
KERNEL = re.compile(r"\tKernel: (\w+)")
ROLE = re.compile(r"// handover: (owner|owner, atomics|reader)$")
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


class Place(NamedTuple):
    source: str  # of opencl/, or the kernel of a test
    text: str  # of the line
    role: str  # what the comment `handover` says; empty without one


class Report(NamedTuple):
    lines: list[str]
    kernel: str
    places: list[Place]


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


def role_of(lines, number):
    """What the comment at the end of line `number`, or in the line above it, says about a handover."""
    own = ROLE.search(lines[number - 1])
    above = ROLE.match(lines[number - 2].strip()) if number > 1 else None
    found = own or above
    return found[1] if found else ""


def line_of(source, kernel, number, known={}):
    key = source, kernel, number
    if key not in known:
        path = ROOT / "opencl" / source
        if path.is_file():
            lines = path.read_text().split("\n")
        else:
            source, lines = kernel, program_of(kernel)
        if number <= len(lines):
            known[key] = Place(source, lines[number - 1].strip(), role_of(lines, number))
        else:
            known[key] = Place(source, f"unknown line {number}", "")
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


def is_reader(place, owner):
    is_atomic = place.source == ATOMICS and owner.role.endswith("atomics")
    return is_atomic or (place.source == owner.source and place.role == "reader")


def is_handover(report):
    if "data race at global memory" not in report.lines[0] or len(report.places) != 2:
        return False
    first, second = report.places
    if first.role.startswith("owner"):
        return second.role.startswith("owner") or is_reader(second, first)
    return second.role.startswith("owner") and is_reader(first, second)


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
        for place in places:
            print(f"    {place.source}: {place.text}")
        for report in reports[:SHOWN]:
            print("\n".join(report.lines))
    count = sum(len(reports) for reports in faults.values())
    print(f"oclgrind: {count} faults; {handovers} races explained by an atomic handover")
    return 1 if count else 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1:]))
