# SPDX-License-Identifier: Apache-2.0
"""Reads bench/results, finds points in it, and formats numbers.

A record is one JSON line: {"bench", "params": {...}, "value", "unit", "machine", "date", "commit"}.
A null value is a failure; params.error gives the reason. params.statistic is median, p10 or p90; if
it is absent, median. A record may have all statistics of its quantity: then value is the median,
and "spread" has mean, sd, p10, p90 and runs.
"""

import json
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from .names import NAMES

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "bench" / "results"


@dataclass
class Point:
    """The result of one measurement: statistics by name, or an error."""

    values: dict = field(default_factory=dict)
    error: str | None = None
    unit: str = ""
    date: str = ""
    commit: str = ""
    machine: str = ""
    params: dict = field(default_factory=dict)

    @property
    def median(self):
        return self.values.get("median")

    @staticmethod
    def of(record):
        """The first record of a measurement as a point."""
        names = ("unit", "date", "machine")
        point = Point(**{name: record[name] for name in names}, params=record["params"])
        point.commit = record.get("commit") or "unknown"
        point.values.update(record.get("spread") or {})
        point.add(record)
        return point

    def add(self, record):
        if record["value"] is None:
            self.error = record["params"].get("error", "failed")
        else:
            self.values[record["params"].get("statistic", "median")] = record["value"]


class Records:
    """All records, oldest first: a later record of a measurement replaces an earlier one."""

    def __init__(self, records):
        self.records = sorted(records, key=lambda record: record["date"])
        self.by_bench, self.by_allocator = defaultdict(list), defaultdict(list)
        for record in self.records:
            for machine in (None, record["machine"]):
                self.by_bench[machine, record["bench"]].append(record)
                allocator = record["params"].get("allocator")
                self.by_allocator[machine, record["bench"], allocator].append(record)

    def machines(self):
        """The machines, those with a GPU first. MPI's tables choose machines themselves (mpi.py)."""
        found = {machine for machine, bench in self.by_bench if not bench.startswith("mpi/")}
        return sorted(found - {None}, key=lambda name: ("nvidia" not in name, name))

    def matching(self, machine, bench, selection):
        """The records whose params match. A function in `selection` tests the param's value."""
        records = self.by_bench.get((machine, bench), [])
        if "allocator" in selection:
            records = self.by_allocator.get((machine, bench, selection["allocator"]), [])
        for record in records:
            params = record["params"]
            if all(
                value(params.get(name)) if callable(value) else params.get(name) == value
                for name, value in selection.items()
            ):
                yield record

    def points(self, machine, bench, x=None, selection=None):
        """{allocator: {value of the param `x`: Point}}, in the order of NAMES and by x.

        The allocator is None in programs that have no such param.
        """
        found = defaultdict(dict)
        for record in self.matching(machine, bench, selection or {}):
            params = record["params"]
            series = found[params.get("allocator")]
            if params.get("statistic", "median") == "median":  # the first line of a measurement
                series[params.get(x)] = Point.of(record)
            else:
                series[params.get(x)].add(record)
        order = list(NAMES)
        return {
            name: dict(sorted(found[name].items(), key=lambda item: (item[0] is None, item[0])))
            for name in sorted(found, key=lambda name: (order + [name]).index(name))
        }

    def point(self, machine, bench, allocator="quarry", **selection):
        selection["allocator"] = allocator
        return self.points(machine, bench, None, selection).get(allocator, {}).get(None)

    def runs(self, machine, bench, selection):
        """{allocator: Point} of the last day and commit. `runs` has the medians of its runs."""
        found = {}
        for record in self.matching(machine, bench, selection):
            name = record["params"].get("allocator")
            is_median = record["params"].get("statistic", "median") == "median"
            if name is None or not is_median or record["value"] is None:
                continue
            new, point = Point.of(record), found.get(name)
            if point is None or (point.date, point.commit) != (new.date, new.commit):
                found[name] = point = new
                point.runs = []
            point.runs.append(record["value"])
            point.values = {"median": median(point.runs)}
        return found

    def failures(self):
        """Programs that failed on each machine's last day: {machine: {program: reason}}."""
        last = {record["machine"]: record["date"] for record in self.records}
        found = defaultdict(dict)
        for record in self.by_bench[None, "failed"]:
            if record["date"] == last[record["machine"]]:
                params = record["params"]
                found[record["machine"]][params.get("program", "?")] = params.get("error", "failed")
        return found


def with_names_of_today(params):
    """Params whose strategy has the name of the table; older records have `fast` and hyphens."""
    if strategy := params.get("strategy"):
        params["strategy"] = "fast_fit" if strategy == "fast" else strategy.replace("-", "_")
    return params


def read(folder=RESULTS):
    records = []
    for path in sorted(Path(folder).glob("*.jsonl")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
                record["params"] = with_names_of_today(dict(record.get("params") or {}))
                for key in ("bench", "value", "unit", "machine", "date"):
                    record[key]  # a KeyError names the missing key
            except (json.JSONDecodeError, KeyError, TypeError) as error:
                raise SystemExit(f"{path}:{number}: not a benchmark record: {error!r}") from None
            records.append(record)
    return Records(records)


def flat(found):
    """The points of {name: {x: Point}}."""
    return [point for series in found.values() for point in series.values()]


def origin(points):
    """The dates and commits of points: one day or the first and the last, and all commits.

    Points without a date come from programs outside this repository and do not count.
    """
    points = [point for point in points if point.date]
    dates = sorted({point.date for point in points})
    commits = list(dict.fromkeys(point.commit[:18] for point in points))
    day = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    return f"{day}, commit{'s' if len(commits) > 1 else ''} {', '.join(commits)}"


def x_text(name, value):
    """A value of the param `name`: `64 KiB` for bytes, `1,024` for other params."""
    if isinstance(value, str) or name not in ("bytes", "heap_bytes"):
        return value if isinstance(value, str) else f"{value:,}"
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


def point_text(point):
    if point is None:
        return "–"
    return value_text(point.median) if point.median is not None else point.error


def range_text(values, middle, low, high, words="–"):
    """A value, and in brackets its range."""
    return (
        f"{value_text(values[middle])} ({value_text(values[low])}{words}{value_text(values[high])})"
    )
