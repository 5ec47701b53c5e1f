# SPDX-License-Identifier: Apache-2.0
"""Shared by the plots and the tables: reads bench/results and formats numbers.

A record is one JSON line: {"bench", "params": {...}, "value", "unit", "machine", "date", "commit"}.
A null value is a failure; params.error gives the reason. params.statistic is median, p10 or p90; if
it is absent, median. A record may have all statistics of its quantity: then value is the median,
and "spread" has mean, sd, p10, p90 and runs.
"""

import json
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench" / "results"
PLOTS = ROOT / "docs" / "plots"

# The allocators and their titles, in the order of the tables and plots.
ALLOCATORS = {
    "quarry": "Quarry",
    "quarry-hardened": "Quarry, hardened",
    "cuda": "CUDA's malloc",
    "libc": "C library's malloc",
    "mimalloc": "mimalloc",
    "bump": "floor (one counter, never a free)",
}
# The ways of coalescing. The name of such an allocator is <upstream>+<way>.
WAYS = {
    "header-block": "header, block",
    "map-block": "map, block",
    "header-warp": "header, warp",
    "map-warp": "map, warp",
    "dynamic": "dynamic",
    "reserved": "reserved",
    "packed": "packed",
}
UPSTREAMS = ("quarry", "cuda", "libc")
NAMES = ALLOCATORS | {
    f"{upstream}+{way}": label for upstream in UPSTREAMS for way, label in WAYS.items()
}


@dataclass
class Point:
    """The result of one measurement with one allocator: statistics by name, or an error."""

    values: dict = field(default_factory=dict)
    error: str | None = None
    unit: str = ""
    date: str = ""
    commit: str = ""
    threads: int | None = None
    params: dict = field(default_factory=dict)

    @property
    def median(self):
        return self.values.get("median")


def read_records(folder=RESULTS):
    """All records, oldest first: a later record of a measurement replaces an earlier one."""
    records = []
    for path in sorted(Path(folder).glob("*.jsonl")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
                record["params"] = dict(record.get("params") or {})
                for key in ("bench", "value", "unit", "machine", "date"):
                    record[key]  # a KeyError names the missing key
            except (json.JSONDecodeError, KeyError, TypeError) as error:
                raise SystemExit(f"{path}:{number}: not a benchmark record: {error!r}") from None
            records.append(record)
    records.sort(key=lambda record: record["date"])
    return records


def machines(records):
    """The names of the machines, those with a GPU first. MPI has tables of its own: mpi_figures.py."""
    return sorted(
        {record["machine"] for record in records if not record["bench"].startswith("mpi/")},
        key=lambda name: ("nvidia" not in name, name),
    )


def points(records, machine, bench, x=None, selection=None):
    """{allocator: {value of the param `x`: Point}} of the records whose params match `selection`.

    Sorted in the order of NAMES and by x. A later record of a measurement replaces an earlier one.
    """
    found = defaultdict(dict)
    for record in records:
        params = record["params"]
        if record["machine"] != machine or record["bench"] != bench or "allocator" not in params:
            continue
        if any(params.get(name) != value for name, value in (selection or {}).items()):
            continue
        series, x_value = found[params["allocator"]], params.get(x)
        statistic = params.get("statistic", "median")
        if statistic == "median":  # always the first line of a measurement
            series[x_value] = Point(
                unit=record["unit"],
                date=record["date"],
                commit=record.get("commit") or "unknown",
                threads=params.get("threads"),
                params=params,
            )
            series[x_value].values.update(record.get("spread") or {})
        if record["value"] is None:
            series[x_value].error = params.get("error", "failed")
        else:
            series[x_value].values[statistic] = record["value"]
    order = list(NAMES)
    return {
        name: dict(sorted(found[name].items(), key=lambda item: (item[0] is None, item[0])))
        for name in sorted(found, key=lambda name: (order + [name]).index(name))
    }


def failures(records):
    """Programs that failed on each machine's last day: {machine: {program: reason}}."""
    last = {record["machine"]: record["date"] for record in records}
    found = defaultdict(dict)
    for record in records:
        if record["bench"] == "failed" and record["date"] == last[record["machine"]]:
            found[record["machine"]][record["params"].get("program", "?")] = record["params"].get(
                "error", "failed"
            )
    return found


def origin(found):
    """The dates and commits of points: one day or the first and the last, and all commits.

    Points without a date come from programs outside this repository and do not count.
    """
    found = [point for point in found if point.date]
    dates = sorted({point.date for point in found})
    commits = list(dict.fromkeys(point.commit[:18] for point in found))
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
