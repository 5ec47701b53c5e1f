#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tries GPU MPI on MPI programs that you have in a folder, and prints a table: program, compiles, runs, equal.

The programs are listed in a table of your own, a file in TOML. The script gets no source code: clone the
repositories into FOLDER/OWNER/NAME first. An entry of the table:

    [[program]]
    name = "solver"
    repository = "OWNER/NAME"       # the folder of the sources below FOLDER
    commit = "0123abc"              # optional: the result names another commit that is checked out
    sources = ["src/*.c"]           # relative to that folder; wildcards are allowed
    options = ["-Iinclude", "-lm"]  # of the compiler
    ranks = 4
    arguments = ["100"]             # of the program
    folder = "data"                 # optional: where the program runs
    input = "20\\n"                  # optional: the standard input of rank 0
    output = "sorted"               # `same`, `sorted` (the default), `ends`, or `lines`
    lines = ["^total .*"]           # for `lines`: only these lines count, sorted; at least one must be there;
                                    # of a pattern with groups, only the groups
    status = 0                      # optional: the exit status
    seconds = 60                    # optional: the limit of time of each run

Each program is compiled with quarry-mpicc and with another MPI, if one is installed, and their outputs are
compared.

usage: scripts/mpi_programs.py TABLE FOLDER [NAME...] [--tools FOLDER] [--device cpu|gpu] [--seeds N] [--json FILE]
--json appends a line for each program to FILE, for bench/results.
Exit status: 1 if a program does not compile, does not run, or prints something else.
"""

import argparse
import datetime
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests/mpi"))
import program_runs  # noqa: E402

UNSUPPORTED = re.compile(r"error: (\S+) is not supported")


@dataclass
class Result:
    """A row of the table. `None` means that the step was not tried."""

    name: str
    commit: str = "?"
    compiles: bool | None = None
    runs: bool | None = None
    equal: bool | None = None
    seconds: float = 0.0  # to compile
    missing: list = field(default_factory=list)
    reason: str = ""

    def record(self, entry, device):
        """The result as a record of bench/results. The value is the time to compile."""
        return {
            "bench": "mpi/others",
            "params": {
                "repository": entry["repository"],
                "program": self.name,
                "commit": self.commit,
                "device": device,
                "ranks": [entry["ranks"]],
                "compiles": self.compiles,
                "equal": bool(self.runs and self.equal is not False) if self.compiles else None,
                "reason": f"not supported: {', '.join(self.missing)}" if self.missing else self.reason,
            },
            "value": round(self.seconds, 1),
            "unit": "s",
            "machine": os.environ.get("QUARRY_MACHINE", "unknown"),
            "date": os.environ.get("QUARRY_DATE", datetime.date.today().isoformat()),
            "commit": os.environ.get("QUARRY_COMMIT", "unknown"),
        }

    def is_good(self):
        return self.compiles and self.runs and self.equal is not False


def commit_of(folder):
    """The commit that is checked out, or `?` outside a repository."""
    found = []
    for asked in (("--show-toplevel",), ("--short=7", "HEAD")):  # together their order depends on git
        command = ["git", "-C", str(folder), "rev-parse", *asked]
        found.append(subprocess.run(command, capture_output=True, text=True).stdout.strip())
    top, commit = found
    return commit if commit and Path(top) == folder.resolve() else "?"


def sources_of(entry, folder):
    found = []
    for pattern in entry["sources"]:
        matches = sorted(folder.glob(pattern))
        if not matches:
            raise FileNotFoundError(f"no file {folder / pattern}")
        found += matches
    return found


def relevant(entry, outcome):
    """The part of the output that must be equal."""
    kind = entry.get("output", "sorted")
    if kind == "same":
        return outcome.out.splitlines()
    if kind == "sorted":
        return outcome.lines()
    if kind == "ends":
        return []
    found = []
    for line in outcome.lines():
        match = next(filter(None, (re.search(pattern, line) for pattern in entry["lines"])), None)
        if match:
            found.append(" ".join(match.groups()) if match.groups() else line)
    return sorted(found)


def first_lines(text, count=3):
    lines = [line for line in text.splitlines() if line.strip()]
    return "; ".join(lines[:count])[:300]


def difference(found, wanted):
    for one, other in zip(found + [""], wanted + [""]):
        if one != other:
            return f"prints {one!r}, the other MPI {other!r}"
    return f"prints {len(found)} lines, the other MPI {len(wanted)}"


def build(entry, folder, tools, scratch, result):
    """Compiles with Quarry's compiler. Returns the program, or None."""
    program = Path(scratch) / f"{entry['name']}.quarry"
    start = time.monotonic()
    outcome = tools.compile(sources_of(entry, folder), program, entry.get("options", []), folder=folder)
    result.seconds = time.monotonic() - start
    result.compiles = outcome.status == 0
    if result.compiles:
        return program
    result.missing = sorted(set(UNSUPPORTED.findall(outcome.err)))
    errors = [line for line in outcome.err.splitlines() if "error" in line]
    result.reason = first_lines("\n".join(errors) or outcome.err)
    return None


def run_other(entry, folder, where, other, scratch):
    """What the program does with the other MPI; None if there is none, or if it fails there."""
    if other is None:
        return None
    program = Path(scratch) / f"{entry['name']}.other"
    compiled = other.compile(sources_of(entry, folder), program, entry.get("options", []), folder=folder)
    if compiled.status != 0:
        return None
    limit = entry.get("seconds", 60)
    outcome = other.run(
        program, entry["ranks"], entry.get("arguments", []), limit, (), where, entry.get("input", "")
    )
    return outcome if outcome.status == entry.get("status", 0) else None


def attempt(entry, root, tools, other, device, seeds):
    folder = root / entry["repository"]
    where = folder / entry.get("folder", ".")
    result = Result(entry["name"], commit_of(folder))
    wanted_commit = entry.get("commit", result.commit)
    if result.commit != "?" and not result.commit.startswith(wanted_commit[:7]):
        result.reason = f"the table names commit {wanted_commit}"
    with tempfile.TemporaryDirectory() as scratch:
        program = build(entry, folder, tools, scratch, result)
        if program is None:
            return result
        reference = run_other(entry, folder, where, other, scratch)
        for seed in range(seeds):
            order = ["--seed", seed] if device == "cpu" else []  # a GPU has an order of its own
            options = ["--device", device, *order, *entry.get("launch", [])]
            outcome = tools.run(
                program,
                entry["ranks"],
                entry.get("arguments", []),
                entry.get("seconds", 60),
                options,
                where,
                entry.get("input", ""),
            )
            result.runs = outcome.status == entry.get("status", 0)
            if not result.runs:
                said = first_lines(outcome.err or outcome.out)
                ended = "no end in time" if outcome.status is None else f"status {outcome.status}"
                result.reason = f"seed {seed}: {ended}: {said}"
                return result
            found = relevant(entry, outcome)
            if entry.get("output") == "lines" and not found:
                result.equal, result.reason = False, f"seed {seed}: none of the named lines is printed"
                return result
            if reference is None:
                result.reason = "not compared: no other MPI, or the program fails there"
                continue
            result.equal = found == relevant(entry, reference)
            if not result.equal:
                result.reason = f"seed {seed}: " + difference(found, relevant(entry, reference))
                return result
    return result


def print_table(results):
    words = {True: "yes", False: "NO", None: "-"}
    print("| program | commit | compiles | runs | equal | seconds to compile |")
    print("|---|---|---|---|---|---:|")
    for r in results:
        steps = " | ".join(words[step] for step in (r.compiles, r.runs, r.equal))
        print(f"| {r.name} | {r.commit} | {steps} | {r.seconds:.1f} |")
    for r in results:
        if r.reason:
            print(f"{r.name}: {r.reason}")
    missing = {}
    for r in results:
        for function in r.missing:
            missing.setdefault(function, []).append(r.name)
    if missing:
        print("not supported, and by which programs it is called:")
    for function, callers in sorted(missing.items()):
        print(f"  {function}: {', '.join(callers)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--tools", help="the folder with quarry-mpicc and quarry-mpirun")
    parser.add_argument("--device", default="cpu", choices=("cpu", "gpu"))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    with asked.table.open("rb") as file:
        entries = tomllib.load(file)["program"]
    if asked.names:
        entries = [entry for entry in entries if entry["name"] in asked.names]
    tools = program_runs.quarry(asked.tools)
    other = program_runs.other_mpi()
    results = []
    for entry in entries:
        try:
            results.append(
                attempt(entry, asked.folder.resolve(), tools, other, asked.device, asked.seeds)
            )
        except FileNotFoundError as problem:
            results.append(Result(entry["name"], reason=str(problem)))
    print_table(results)
    if asked.json:
        with asked.json.open("a", encoding="utf-8") as file:
            for entry, result in zip(entries, results):
                line = json.dumps(result.record(entry, asked.device), separators=(",", ":"), ensure_ascii=False)
                file.write(line + "\n")
    return 0 if all(result.is_good() for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
