# SPDX-License-Identifier: Apache-2.0
"""Reads bench/results, finds points in it, and formats numbers.

A record is one JSON line: {"bench", "params": {...}, "value", "unit", "machine", "date", "commit"}.
A null value is a failure; params.error gives the reason. params.statistic is median, p10 or p90; if
it is absent, median. A record may have all statistics of its quantity: then value is the median,
and "spread" has mean, sd, p10, p90 and runs.

A selection is a text, `heap/single/malloc bytes=64 case="no recording"`, or the same as a dict:
the benchmark, and params with their values. `machine`, `date` and `commit` are selected as params
are. None is the value of a param that is absent. `*` stands for any letters. Without `allocator`, a
selection is of quarry, or of records that have no such param. A name that begins with a dot selects
nothing: `.goal="≤ 3"` is for the writer of a cell.
"""

import json
import shlex
from collections import defaultdict
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "bench" / "results"
# Each run is a record. A point is the median of the runs of the last day and commit.
BY_RUN = {"host/pool/pair", "host/pool/held_per_live", "host/registry/find", "mpi/program/time"}
FAILURES = {"hangs": "hangs", "timed out": "timed out"}
FAILURES |= dict.fromkeys(("exit status 124", "exit status 137"), "no end in time")


class Point:
    """The last result of a measurement in its records: statistics by name, or an error."""

    def __init__(self, records):
        medians = [nth for nth, record in enumerate(records) if statistic_of(record) == "median"]
        last = records[medians[-1]]
        self.params, self.date, self.machine = last["params"], last["date"], last["machine"]
        self.commit = last.get("commit") or "unknown"
        self.unit = "µs" if last["unit"] == "us" else last["unit"]
        self.error = FAILURES.get(self.params.get("error"), "failed")  # if there is no median
        if last["bench"] in BY_RUN:
            day = (self.date, last.get("commit"))
            runs = [records[nth] for nth in medians if records[nth]["value"] is not None]
            runs = [run["value"] for run in runs if (run["date"], run.get("commit")) == day]
            found = {"median": median(runs)} if runs else {}
            if runs and value_text(min(runs)) != value_text(max(runs)):
                found |= {"p10": min(runs), "p90": max(runs)}
        else:  # lines of other statistics follow that of the median
            found = {statistic_of(record): record["value"] for record in records[medians[-1] :]}
            found = (last.get("spread") or {}) | found
        self.values = {name: value for name, value in found.items() if value is not None}

    @property
    def median(self):
        return self.values.get("median")

    def __str__(self):
        return self.error if self.median is None else value_text(self.median)


def statistic_of(record):
    name = record["params"].get("statistic")
    return name if name in ("p10", "p90") else "median"


def select(*parts):
    """The selections as one dict. A later one replaces values of an earlier one."""
    result = {}
    for part in parts:
        if isinstance(part, str):
            words = [word.partition("=") for word in shlex.split(part)]
            result |= {name if eq else "bench": value if eq else name for name, eq, value in words}
        else:
            result |= part or {}
    return result


class Records:
    """All records, oldest first: a later record of a measurement replaces an earlier one."""

    def __init__(self, records):
        self.records = sorted(with_failures(records), key=lambda record: record["date"])
        self.by_bench = defaultdict(list)
        for record in self.records:
            top = {name: record.get(name) for name in ("machine", "date", "commit")}
            record["all"] = top | record["params"]
            record["texts"] = {name: str(value) for name, value in record["all"].items()}
            allocator = record["texts"].setdefault("allocator", "quarry")
            for machine in (None, record["machine"]):
                for key in (allocator, "*"):
                    self.by_bench[machine, record["bench"], key].append(record)

    def machines(self):
        """The machines, those with a GPU first. Tables of MPI select machines themselves."""
        found = {r["machine"] for r in self.records if r["date"] and r["bench"][:4] != "mpi/"}
        return sorted(found, key=lambda name: ("nvidia" not in name, name))

    def matching(self, selection, machine=None):
        """The records that match, oldest first."""
        wanted = {"allocator": "quarry", "machine": machine} | select(selection)
        bench, machine, allocator = wanted.pop("bench"), wanted.pop("machine"), wanted["allocator"]
        wanted = [(name, str(value)) for name, value in wanted.items() if name[0] != "."]
        for record in self.by_bench[machine, bench, "*" if "*" in allocator else allocator]:
            texts = record["texts"]
            if all(
                texts.get(name, "None") == value
                or ("*" in value and fnmatchcase(texts.get(name, "None"), value))
                for name, value in wanted
            ):
                yield record

    def point(self, selection, machine=None):
        found = list(self.matching(selection, machine))
        return Point(found) if found else None


@cache
def read(folder=RESULTS):
    """The records of a folder. Equal calls return one object, which nobody changes."""
    records = []
    for path in sorted(Path(folder).glob("*.jsonl")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            try:
                record = json.loads(line)
                for key in ("bench", "params", "value", "unit", "machine", "date"):
                    record[key]  # a KeyError names the missing key
                records.append(record)
            except (json.JSONDecodeError, KeyError, TypeError) as error:
                raise SystemExit(f"{path}:{number}: not a benchmark record: {error!r}") from None
    return Records(records)


def with_failures(records):
    """The records, and after each failure of an MPI program one of each quantity it measures."""
    for failed in records:
        yield failed
        if failed["bench"] == "mpi/failed":
            program = f"mpi/{failed['params']['program']}/"
            measured = (r for r in records if r["bench"].startswith(program))
            failures = {json.dumps([r["bench"], r["params"] | failed["params"]]) for r in measured}
            for bench, params in map(json.loads, sorted(failures)):
                yield failed | {"bench": bench, "params": params}


def origin(points):
    """The dates and commits of points: one day or the first and the last, and all commits."""
    points = [point for point in points if point.date]
    dates = sorted({point.date for point in points})
    commits = list(dict.fromkeys(point.commit[:18] for point in points))
    day = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    return f"{day}, commit{'s' if len(commits) > 1 else ''} {', '.join(commits)}"


def x_text(name, value):
    """A value of a param: `64 KiB` for bytes, `1,024` for other numbers."""
    if name not in ("bytes", "heap_bytes", "mean") or not isinstance(value, int):
        return f"{value:,}" if isinstance(value, int) else str(value)
    if value > 1 << 20 and value % (1 << 20) == 1:
        return f"{x_text(name, value - 1)} + 1"
    # Up to 4096 in bytes, as for size classes; above, in the largest unit that divides the value.
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if value > 4096 and value % size == 0:
            return f"{value // size} {unit}"
    return f"{value} B"


def value_text(value):
    """Three significant digits, with commas between thousands."""
    if value == 0:
        return "0"
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if abs(rounded) >= 100 else f"{rounded:.3g}"
