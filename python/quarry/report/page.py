# SPDX-License-Identifier: Apache-2.0
"""Writes a report as one HTML file that needs no network."""

import base64
import html
import json
import struct
import zlib
from importlib import resources
from typing import Any

import numpy as np

from quarry._core import version
from quarry.report import moments, stacks
from quarry.report.analysis import Axis, Envelope
from quarry.report.content import Content
from quarry.report.lifetimes import address_spaces
from quarry.report.moments import MomentIndex
from quarry.tuning import TuneResult

MAX_NAMES = 5000  # of call sites, for the hover text of blocks: those of the most blocks
SCRIPTS = [
    "texts", "charts", "moments", "timeline", "blocks", "groups", "table", "moment_table",
    "segments", "flame", "page",
]  # fmt: skip


def packed(values: Any, dtype: str) -> dict[str, str]:
    """An array for the scripts: little-endian bytes as base64."""
    data = np.ascontiguousarray(values, np.dtype(dtype).newbyteorder("<")).tobytes()
    return {"type": dtype, "data": base64.b64encode(data).decode()}


def curve(label: str, values: Envelope) -> dict[str, Any]:
    return {
        "label": label,
        "low": packed(values.minimum, "f8"),
        "high": packed(values.maximum, "f8"),
    }


def png_of_alpha(alpha: np.ndarray, gray: int) -> str:
    """A PNG file of one gray with this opacity (rows from the top, values from 0 to 1) as a URL."""
    height, width = alpha.shape
    pixels = np.empty((height, 1 + 2 * width), np.uint8)
    pixels[:, 0] = 0  # no filter
    pixels[:, 1::2] = gray
    pixels[:, 2::2] = np.round(alpha * 255)

    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    header = struct.pack(">IIBBBBB", width, height, 8, 4, 0, 0, 0)  # 8 bits of gray and of alpha
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header)
    data += chunk(b"IDAT", zlib.compress(pixels.tobytes(), 6)) + chunk(b"IEND", b"")
    return "data:image/png;base64," + base64.b64encode(data).decode()


def blocks_of(content: Content) -> dict[str, Any]:
    """The allocations that are drawn one by one."""
    drawn = content.drawn
    _, _, bottom, height = content.bounds(content.axis)
    sites, site_of, counts = np.unique(drawn.call_site, return_inverse=True, return_counts=True)
    by_count = np.argsort(-counts, kind="stable")
    rank = np.empty_like(by_count)
    rank[by_count] = np.arange(len(by_count))
    known = content.call_sites
    names = [
        stacks.whole_name(known[site] if site < len(known) else "")
        for site in sites[by_count[:MAX_NAMES]].tolist()
    ]
    return {
        "bottom": packed(bottom, "f8"),
        "height": packed(height, "f8"),
        "size": packed(drawn.size, "f8"),
        "is_freed": packed(drawn.end < content.events, "u1"),
        "is_older": packed(drawn.start < content.first, "u1"),
        "group": packed(content.groups.color_of(drawn), "i1"),
        "site": packed(rank[site_of], "u4"),
        "names": names,
        "count": len(drawn),
        "all": content.allocations,
        "top": content.addresses.total,
        "ranges": {
            "start": [f"{start:x}" for start in content.addresses.start.tolist()],
            "offset": packed(content.addresses.offset, "f8"),
        },
    }


def times_of(content: Content) -> Any:
    """Nanoseconds since the trace's first event, for the first event of each bin of the curves."""
    origin = np.uint64(content.origin)
    return np.maximum(content.requested.time, origin) - origin


def sweep_of(sweep: TuneResult) -> dict[str, Any]:
    """The outcomes that fit or were dropped, for the chart of the tuned settings."""
    fitting = [outcome for outcome in sweep.outcomes if outcome.fits or outcome.is_dropped]
    return {
        "peak": [outcome.peak_reserved for outcome in fitting],
        "ms": [outcome.upstream_us / 1000 for outcome in fitting],
        "coalesces": [outcome.coalesces for outcome in fitting],
        "strategy": [outcome.strategy for outcome in fitting],
        "setting": [outcome.command_options for outcome in fitting],
        "dropped": [outcome.is_dropped for outcome in fitting],
        "front": [outcome.is_on_front for outcome in fitting],
        "best": fitting.index(sweep.best) if sweep.best else -1,
        "code": sweep.best.code if sweep.best else "",
        "in_use": sweep.peak_allocated,
        "count": len(sweep.outcomes),
        "ms_per_gib": sweep.us_per_gib / 1000,
    }


def axis_of(content: Content, axis: Axis) -> dict[str, Any]:
    """All that depends on the horizontal axis, with the picture of the allocations in grey."""
    left, right, _, _ = content.bounds(axis)
    others = content.others.get(axis.unit)
    requested = content.requested
    return {
        "title": axis.title,
        "unit": axis.unit,
        "range": [axis.first, axis.last],
        "curve_x": packed(axis.at(requested.first, requested.time), "f8"),
        "replay_x": [packed(axis.at(each.events, each.times), "f8") for each in content.replays],
        "left": packed(left, "f8"),
        "right": packed(right, "f8"),
        "picture": "" if others is None else png_of_alpha(others[::-1], 110),
        "phases": [(float(axis.at(event, time)), name) for event, time, name in content.phases],
        "failures": [float(axis.at(each.event, each.time)) for each in content.failures],
    }


def index_of(index: MomentIndex, content: Content) -> dict[str, Any]:
    """The facts of an index; its bins are scripts of their own."""
    return {
        "first": content.first,
        "events": content.events,
        "leaf": moments.LEAF,
        "fanout": moments.FANOUT,
        "levels": index.levels,
        "least": index.least,
        "count": index.count,
    }


def stored(name: str, data: bytes) -> str:
    """Compressed data as an element of the page, which no browser reads before it is asked to."""
    return f'<script type="text/plain" id="{name}">{base64.b64encode(data).decode()}</script>'


def stored_parts(content: Content) -> str:
    """The bins of the indices, and the stacks."""
    parts = [
        stored(f"{name}-{each.level}-{each.number}", each.data)
        for name, index in (("moments", content.moments), ("segments", content.segments))
        for each in index.bins
    ]
    table = json.dumps(stacks.table_of(content.call_sites), separators=(",", ":"))
    return "\n".join([*parts, stored("stacks", zlib.compress(table.encode(), 6))])


def page_data(content: Content) -> dict[str, Any]:
    curves = [curve("requested by the program", content.requested)]
    if content.granted:
        curves.append(curve("granted, with rounding", content.granted))
    if content.recorded:
        curves.append(curve("reserved, as recorded", content.recorded))
    replays = [
        {
            "label": replay.label,
            "fragments": replay.fragments,
            "reserved": packed(replay.reserved, "f8"),
            "free": packed(replay.free, "f8"),
            "largest": packed(replay.largest_free, "f8"),
        }
        for replay in content.replays
    ]
    groups = content.groups
    number = "u4" if content.events < 1 << 32 else "f8"
    return {
        "axes": [axis_of(content, axis) for axis in content.axes],
        "moments": index_of(content.moments, content),
        "segments": index_of(content.segments, content),
        "used_share": curve("", content.used_share) if content.used_share else None,
        "largest_free": curve("", content.largest_free) if content.largest_free else None,
        "largest_share": curve("", content.largest_share) if content.largest_share else None,
        "is_part": content.is_part,
        "peak": {
            "event": content.peak_event,
            "requested": content.peak_requested,
        },
        "allocations": content.allocations,
        "curve_event": packed(content.requested.first, number),
        "curve_time": packed(times_of(content), "f8"),
        "curve_top": packed(content.requested.top, number),
        "streams": content.streams,
        "pools": content.allocators,
        "spaces": address_spaces(content.allocators),
        "used_pools": content.used_allocators,
        "curves": curves,
        "replays": replays,
        "blocks": blocks_of(content),
        "failures": [
            vars(each) | {"is_by_site": any(name for name, _ in each.largest)}
            for each in content.failures
        ],
        "groups": {
            "title": groups.title,
            "numbers": groups.numbers.tolist(),
            "names": [stacks.whole_name(name) for name in groups.names],
            "labels": stacks.labels_of(groups.names),
            "at_peak": groups.at_peak,
            "total": groups.total,
            "allocations": groups.allocations,
        },
        "sweep": sweep_of(content.sweep) if content.sweep and not content.nothing else None,
        "summary": content.summary,
        "problems": content.problems,
        "nothing": content.nothing,
        "version": version,
    }


def html_of(content: Content) -> str:
    """The page: plotly, the data and the scripts are inside."""
    return filled("page.html", content.title, page_data(content), SCRIPTS, stored_parts(content))


def filled(
    name: str, title: str, values: dict[str, Any], scripts: list[str], parts_stored: str = ""
) -> str:
    """A page of the folder `web` with its data and scripts."""
    from plotly.offline import get_plotlyjs  # takes long to import

    folder = resources.files("quarry.report") / "web"
    data = json.dumps(values, separators=(",", ":")).replace("<", "\\u003c")
    page = (folder / name).read_text("utf-8")
    parts = {
        "title": html.escape(title),
        "style": (folder / "page.css").read_text("utf-8"),
        "plotly": get_plotlyjs(),
        "data": data,
        "stored": parts_stored,
        "scripts": "\n".join(
            f"<script>{(folder / f'{each}.js').read_text('utf-8')}</script>" for each in scripts
        ),
    }
    pieces = page.split("{{")
    result = [pieces[0]]
    for piece in pieces[1:]:
        part, text = piece.split("}}", 1)
        result += [parts[part], text]
    return "".join(result)
