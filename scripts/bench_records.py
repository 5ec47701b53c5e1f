# SPDX-License-Identifier: Apache-2.0
"""What the plots and README's table share: reading bench/results, finding what a benchmark varies.

A record is one JSON line: {"bench", "params": {...}, "value", "unit", "machine", "date", "commit"}.
A null value is a failure; params.error says which. params.statistic is median (also if absent),
p10 or p90.
"""

import json
import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench" / "results"
BYTE_PARAMS = {"bytes", "size", "heap_bytes", "segment_bytes"}
NOT_A_SERIES = {"statistic", "error"}


@dataclass
class Chart:
    """One benchmark on one machine, ready to draw or to tabulate.

    `series` maps a label to {x: {statistic: value}}; a value is None where the run failed, and
    `errors` has (label, x) then. `x_name` is None where no number varies: each series then has the
    one x None.
    """

    bench: str
    machine: str
    origin: str
    unit: str
    x_name: str | None
    series: dict
    errors: dict


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


def charts(records):
    """A Chart for each bench and machine, from the latest record of each combination of params."""
    groups = defaultdict(dict)
    for record in records:
        if record["bench"] == "failed":
            continue
        key = json.dumps(
            {k: v for k, v in record["params"].items() if k != "error"}, sort_keys=True
        )
        groups[record["machine"], record["bench"]][key] = record
    return [
        make_chart(machine, bench, list(group.values()))
        for (machine, bench), group in sorted(groups.items())
    ]


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


def make_chart(machine, bench, group):
    x_name = varying_number([record["params"] for record in group])
    varying = {
        name for name in all_names(group) if len({repr(r["params"].get(name)) for r in group}) > 1
    }
    series, errors = defaultdict(lambda: defaultdict(dict)), {}
    for record in group:
        params = record["params"]
        label = series_label(params, varying - {x_name})
        x = params.get(x_name) if x_name else None
        series[label][x][params.get("statistic", "median")] = record["value"]
        if record["value"] is None:
            errors[label, x] = params.get("error", "failed")
    units = {record["unit"] for record in group if record["value"] is not None} or {
        group[-1]["unit"]
    }
    if len(units) > 1:
        raise SystemExit(
            f"{bench} on {machine} is measured in more than one unit: {', '.join(sorted(units))}"
        )
    ordered = {
        label: dict(points)
        for label, points in sorted(series.items(), key=lambda item: series_order(item[0]))
    }
    return Chart(bench, machine, origin(group), units.pop(), x_name, ordered, errors)


def origin(group):
    """When and from what a group was measured: a day or its first and last, and all commits."""
    dates = sorted({record["date"] for record in group})
    commits = list(dict.fromkeys(str(record.get("commit") or "unknown")[:18] for record in group))
    day = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    return (
        f"{day}, commit {commits[0]}"
        if len(commits) == 1
        else f"{day}, commits {', '.join(commits)}"
    )


def all_names(group):
    return {name for record in group for name in record["params"]}


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def varying_number(all_params):
    """The numeric param with the most values, the first written if several; None if none varies."""
    values = defaultdict(set)
    for params in all_params:
        for name, value in params.items():
            if is_number(value) and name not in NOT_A_SERIES:
                values[name].add(value)
    best = max(values, key=lambda name: len(values[name]), default=None)
    return best if best is not None and len(values[best]) > 1 else None


def series_label(params, varying):
    """The allocator, and whatever else tells this line from the others."""
    parts = [str(params["allocator"])] if "allocator" in params else []
    for name in params:
        if name in varying and name != "allocator" and name not in NOT_A_SERIES:
            parts.append(
                number_text(name, params[name])
                if is_number(params[name])
                else f"{name} {params[name]}"
            )
    return ", ".join(parts) or "all"


def series_order(label):
    """Quarry first, then by name."""
    return (not label.startswith("quarry"), label)


def number_text(name, value):
    """`64 KiB` for 65536 bytes, `1,024 threads`."""
    return plain_text(name, value) + ("" if name in BYTE_PARAMS else f" {name}")


def plain_text(name, value):
    """The number alone: `64 KiB`, `1,024`, `0.5`."""
    if name in BYTE_PARAMS:
        return bytes_text(value)
    return f"{value:,}" if value == int(value) else f"{value:g}"


def bytes_text(value):
    """In bytes up to 4096, as size classes are read; above, in the largest unit that divides it."""
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


def slug(text):
    """As scripts/run_bench.sh names files."""
    return re.sub("[^a-z0-9]+", "-", text.lower()).strip("-")
