#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints what quarry-mpicc says of each program of tests/mpi/programs, as JSON lines for bench/results.

`stacks`: the stack and the spills on a GPU, for each limit of registers (--report). `classes`: how many allocations have which class
(--explain).

usage: scripts/mpi_report.py TOOLS stacks|classes      TOOLS: the folder with quarry-mpicc
"""

import argparse
import datetime
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OPTIONS = ("-O1", "-std=gnu11", "-lm")  # as tests/mpi/programs_test.py

STACK = re.compile(r"^(\d+) +(\d+) B", re.MULTILINE)
NUMBERS = re.compile(r"^  \w[\w.]*:((?: \d+)+) B$", re.MULTILINE)


def largest(part):
    """The largest number of each column."""
    rows = [[int(word) for word in found.split()] for found in NUMBERS.findall(part)]
    return [max(column) for column in zip(*rows)]


def figures_of(report):
    """Limits of registers, and for each the stack of a rank, the program's largest frame and spills."""
    head, frames, spills, *_ = report.split("\n\n")
    limits, stacks = zip(*((int(limit), int(stack)) for limit, stack in STACK.findall(head)))
    return {
        "registers": list(limits),
        "stack": list(stacks),
        "frame": largest(frames),
        "spills": largest(spills) or [0] * len(limits),
    }


def stack_of(compiler, source, folder):
    """What a rank needs on a GPU."""
    found = figures_of(run(compiler, "--report", source, "-o", Path(folder) / "program", *OPTIONS))
    return "mpi/report", found, found["stack"][0], "bytes", "sm_90"


def classes_of(compiler, source, folder):
    """How many allocations, each in each context, have which class."""
    del folder
    sites = [json.loads(line) for line in run(compiler, "--explain=json", source, *OPTIONS).splitlines()]
    found = {kind: sum(site["class"] == kind for site in sites) for kind in ("CU", "CV", "NO")}
    return "mpi/classes", found, len(sites), "sites", "any"


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {done.stderr}")
    return done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tools", type=Path)
    parser.add_argument("what", choices=["stacks", "classes"])
    asked = parser.parse_args()
    measure = stack_of if asked.what == "stacks" else classes_of
    for source in sorted((ROOT / "tests/mpi/programs").glob("*.c")):
        if source.stem.startswith("fails_"):
            continue
        with tempfile.TemporaryDirectory() as folder:
            bench, found, value, unit, machine = measure(asked.tools / "quarry-mpicc", source, folder)
        record = {
            "bench": bench,
            "params": {"program": source.stem, **found},
            "value": value,
            "unit": unit,
            "machine": machine,
            "date": os.environ.get("QUARRY_DATE", datetime.date.today().isoformat()),
            "commit": os.environ.get("QUARRY_COMMIT", "unknown"),
        }
        print(json.dumps(record, separators=(",", ":")))


if __name__ == "__main__":
    main()
