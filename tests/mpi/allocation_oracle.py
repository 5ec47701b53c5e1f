# SPDX-License-Identifier: Apache-2.0
"""Compares the classes that quarry-mpicc --explain gives to allocations with what the ranks of a run do."""

import collections
import json
import os
import subprocess
from pathlib import Path


def explain(tools, sources, options=()):
    """The sites of a program, in the order of their numbers in a recorded run."""
    command = [Path(tools) / "quarry-mpicc", "-w", "--explain=json", *options, *sources]
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=100, check=True)
    return [json.loads(line) for line in result.stdout.splitlines()]


def compile_recorded(tools, sources, program, options=()):
    """Compiles a program that records its allocations. Returns its sites, as `explain` does."""
    command = [Path(tools) / "quarry-mpicc", "-w", "--cpu-only", "--record-allocations", *sources, "-o", program, *options]
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=100, check=True)
    return [json.loads(line) for line in result.stdout.splitlines()]


def run_recorded(tools, program, ranks, arguments=(), seed=0, text=""):
    """Runs the program and returns, for each rank, the list of its calls as (site, size). None if the run failed."""
    log = Path(str(program) + ".allocations")
    log.unlink(missing_ok=True)
    command = [Path(tools) / "quarry-mpirun", "--device", "cpu", "--seed", seed, "-n", ranks, program, *arguments]
    result = subprocess.run([str(word) for word in command], input=text, capture_output=True, text=True, timeout=60, check=False,
                            env=os.environ | {"QUARRY_MPI_ALLOCATIONS": str(log)})
    if result.returncode != 0:
        return None
    calls = {rank: [] for rank in range(ranks)}
    for line in log.read_text().splitlines() if log.exists() else []:
        rank, site, size = map(int, line.split())
        calls[rank].append((site, size))
    return calls


def contradictions(sites, calls):
    """What a run shows that the classes exclude, as sentences; empty if the classes hold."""
    found = []
    collective = [[call for call in own if sites[call[0]]["class"] == "CU"] for own in calls.values()]
    for rank, own in zip(calls, collective):
        if own != collective[0]:
            step = next((i for i, pair in enumerate(zip(own, collective[0])) if pair[0] != pair[1]), min(len(own), len(collective[0])))
            show = [describe(sites, each[step]) if step < len(each) else "no further call" for each in (collective[0], own)]
            found.append(f"collective call {step}: rank 0 has {show[0]}, rank {rank} has {show[1]}")
            break
    counts = {rank: collections.Counter(site for site, _ in own) for rank, own in calls.items()}
    for number, site in enumerate(sites):
        numbers = {own[number] for own in counts.values()}
        if site["class"] == "CV" and len(numbers) > 1:
            found.append(f"{place(site)} is {site['class']}, but ranks call it {sorted(numbers)} times")
    return found


def place(site):
    return f"{site['call']} at {site['file']}:{site['line']}:{site['column']}"


def describe(sites, call):
    return f"{place(sites[call[0]])} with {call[1]} bytes"
