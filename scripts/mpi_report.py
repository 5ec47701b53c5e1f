#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the stack and the spills of each program of tests/mpi/programs on a GPU, as JSON lines.

quarry-mpicc --report has the figures, for each limit of registers. The lines belong to bench/results.

usage: scripts/mpi_report.py TOOLS      the folder with quarry-mpicc
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tools", type=Path)
    compiler = parser.parse_args().tools / "quarry-mpicc"
    for source in sorted((ROOT / "tests/mpi/programs").glob("*.c")):
        if source.stem.startswith("fails_"):
            continue
        with tempfile.TemporaryDirectory() as folder:
            command = [compiler, "--report", source, "-o", Path(folder) / "program", *OPTIONS]
            done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{source}: {done.stderr}")
        found = figures_of(done.stdout)
        record = {
            "bench": "mpi/report",
            "params": {"program": source.stem, **found},
            "value": found["stack"][0],
            "unit": "bytes",
            "machine": "sm_90",
            "date": os.environ.get("QUARRY_DATE", datetime.date.today().isoformat()),
            "commit": os.environ.get("QUARRY_COMMIT", "unknown"),
        }
        print(json.dumps(record, separators=(",", ":")))


if __name__ == "__main__":
    main()
