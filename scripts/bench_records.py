# SPDX-License-Identifier: Apache-2.0
"""What the plots and the tables share: reading bench/results, and how numbers are written.

A record is one JSON line: {"bench", "params": {...}, "value", "unit", "machine", "date", "commit"}.
A null value is a failure; params.error says which. params.statistic is median (also if absent),
p10 or p90. A record may have all statistics of its quantity: then value is the median, and "spread"
has mean, sd, p10, p90 and runs.
"""

import json
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench" / "results"
PLOTS = ROOT / "docs" / "plots"

# Allocators in the order in which they are shown, and what they are called.
ALLOCATORS = {
    "quarry": "Quarry",
    "quarry-hardened": "Quarry, hardened",
    "cuda": "CUDA's malloc",
    "libc": "C library's malloc",
    "mimalloc": "mimalloc",
    "bump": "floor (one counter, never a free)",
}
# Ways of coalescing; an allocator is called <upstream>+<way>.
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
    """What one allocator gave for one thing: statistics by name, or an error."""

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
    """All records, oldest first, so that a later one of the same thing replaces an earlier."""
    records = []
    for path in sorted(Path(folder).glob("*.jsonl")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
                record["params"] = dict(record.get("params") or {})
                for key in ("bench", "value", "unit", "machine", "date"):
                    record[key]  # a KeyError names what is missing
            except (json.JSONDecodeError, KeyError, TypeError) as error:
                raise SystemExit(f"{path}:{number}: not a benchmark record: {error!r}") from None
            records.append(record)
    records.sort(key=lambda record: record["date"])
    return records


def machines(records):
    """Those with a GPU first."""
    return sorted(
        {record["machine"] for record in records}, key=lambda name: ("nvidia" not in name, name)
    )


def points(records, machine, bench, x=None, where=None):
    """{allocator: {value of the param `x`: Point}} of a benchmark, of records that match `where`.

    In the order of NAMES, and of x. A later measurement of the same thing replaces an earlier.
    """
    found = defaultdict(dict)
    for record in records:
        params = record["params"]
        if record["machine"] != machine or record["bench"] != bench or "allocator" not in params:
            continue
        if any(params.get(name) != value for name, value in (where or {}).items()):
            continue
        of_allocator, at = found[params["allocator"]], params.get(x)
        statistic = params.get("statistic", "median")
        if statistic == "median":  # always the first line of a measurement
            of_allocator[at] = Point(
                unit=record["unit"],
                date=record["date"],
                commit=record.get("commit") or "unknown",
                threads=params.get("threads"),
                params=params,
            )
            of_allocator[at].values.update(record.get("spread") or {})
        if record["value"] is None:
            of_allocator[at].error = params.get("error", "failed")
        else:
            of_allocator[at].values[statistic] = record["value"]
    order = list(NAMES)
    return {
        name: dict(sorted(found[name].items(), key=lambda item: (item[0] is None, item[0])))
        for name in sorted(found, key=lambda name: (order + [name]).index(name))
    }


def failures(records):
    """Programs that did not end well on each machine's last day: {machine: {program: why}}."""
    last = {record["machine"]: record["date"] for record in records}
    found = defaultdict(dict)
    for record in records:
        if record["bench"] == "failed" and record["date"] == last[record["machine"]]:
            found[record["machine"]][record["params"].get("program", "?")] = record["params"].get(
                "error", "failed"
            )
    return found


def origin(found):
    """When and from what points were measured: a day or its first and last, and all commits."""
    dates = sorted({point.date for point in found})
    commits = list(dict.fromkeys(point.commit[:18] for point in found))
    day = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    return f"{day}, commit{'s' if len(commits) > 1 else ''} {', '.join(commits)}"


def x_text(name, value):
    """`64 KiB` for 65536 of `bytes`, `1,024` of anything else."""
    if isinstance(value, str) or name not in ("bytes", "heap_bytes"):
        return value if isinstance(value, str) else f"{value:,}"
    # In bytes up to 4096, as size classes are read; above, in the largest unit that divides it.
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if value > 4096 and value % size == 0:
            return f"{value // size} {unit}"
    return f"{value} B"


def value_text(value):
    """Three significant digits, thousands apart."""
    if value == 0:
        return "0"
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if abs(rounded) >= 100 else f"{rounded:.3g}"


def point_text(point):
    if point is None:
        return "–"
    return value_text(point.median) if point.median is not None else point.error
