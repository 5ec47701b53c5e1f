# SPDX-License-Identifier: Apache-2.0
"""Two traces on one page: their memory on the same axes, and what differs at their peaks."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from quarry._core import version
from quarry.report import analysis, page, stacks
from quarry.report.analysis import Axis, Envelope
from quarry.report.content import Content

MAX_ROWS = 5000  # of the table: those with the largest differences
SCRIPTS = ["texts", "charts", "table", "comparison"]
NOTHING = (0, 0, 0)

Sums = tuple[int, int, int]


@dataclass(frozen=True)
class Row:
    """A call site, or a class of sizes, in the first and in the second trace."""

    name: str
    at_peak: tuple[int, int]  # bytes
    total: tuple[int, int]  # bytes
    allocations: tuple[int, int]

    @property
    def difference(self) -> int:
        """By how many bytes the second trace exceeds the first one at the peaks."""
        return self.at_peak[1] - self.at_peak[0]


def is_by_size(first: Content, second: Content) -> bool:
    return first.groups.title == second.groups.title == "size"


def rows_of(first: Content, second: Content) -> list[Row]:
    """All call sites of two traces, or sizes if none of them has call sites. The largest difference
    at the peaks comes first."""
    by_size = is_by_size(first, second)
    left, right = (sums_by_name(each, by_size) for each in (first, second))
    rows = []
    for name in dict.fromkeys([*left, *right]):
        a, b = left.get(name, NOTHING), right.get(name, NOTHING)
        rows.append(Row(name, (a[0], b[0]), (a[1], b[1]), (a[2], b[2])))
    return sorted(rows, key=lambda row: (-abs(row.difference), -max(row.total)))


def sums_by_name(content: Content, by_size: bool) -> dict[str, Sums]:
    """By name: bytes in use at the peak, bytes in total, and allocations. In a trace without call
    sites, these are unknown."""
    names = analysis.size_names() if by_size else content.call_sites
    if content.groups.title == "size" and not by_size:
        names = []
    found: dict[str, Sums] = {}
    for number in np.flatnonzero(content.sums[2]).tolist():
        name = (names[number] if number < len(names) else "") or analysis.UNKNOWN
        older, (at_peak, total, count) = found.get(name, NOTHING), content.sums[:, number].tolist()
        found[name] = (older[0] + at_peak, older[1] + total, older[2] + count)
    return found


def axes_of(first: Content, second: Content) -> list[Axis]:
    """The axes that both traces have, from the first event that each one shows. Events come first
    if one of the traces needs them."""
    found = []
    for axis in first.axes:
        others = [each for each in second.axes if each.unit == axis.unit]
        for other in others:
            length = max(axis.last - axis.first, other.last - other.first)
            found.append(Axis(axis.title, axis.unit, 0.0, length))
    by_event = not (first.axis.unit and second.axis.unit)
    return sorted(found, key=lambda axis: bool(axis.unit) == by_event)


def comparison_data(first: Content, second: Content) -> dict[str, Any]:
    contents = (first, second)
    rows = rows_of(first, second)
    shown = rows[:MAX_ROWS]

    def positions(content: Content, unit: str) -> Any:
        axis = next(each for each in content.axes if each.unit == unit)
        return axis.at(content.requested.first, content.requested.time) - axis.first

    def curve(content: Content, values: Envelope | None) -> dict[str, Any] | None:
        return page.curve(content.title, values) if values else None

    return {
        "axes": [
            {
                "title": axis.title,
                "unit": axis.unit,
                "range": [axis.first, axis.last],
                "curve_x": [page.packed(positions(each, axis.unit), "f8") for each in contents],
            }
            for axis in axes_of(first, second)
        ],
        "traces": [
            {
                "title": each.title,
                "requested": curve(each, each.requested),
                "recorded": curve(each, each.recorded),
                "events": each.events - each.first,
                "peak": each.peak_requested,
                "recorded_peak": float(each.recorded.maximum.max()) if each.recorded else 0,
            }
            for each in contents
        ],
        "title": "size" if is_by_size(first, second) else "call site",
        "rows": [[*row.at_peak, *row.total, *row.allocations] for row in shown],
        "row_count": len(rows),
        "stacks": stacks.table_of([row.name for row in shown]),
        "nothing": first.nothing and second.nothing,
        "version": version,
    }


def html_of(first: Content, second: Content) -> str:
    """The page: plotly, the data and the scripts are inside."""
    title = f"{first.title} and {second.title}"
    return page.filled("comparison.html", title, comparison_data(first, second), SCRIPTS)
