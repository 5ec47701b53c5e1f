# SPDX-License-Identifier: Apache-2.0
"""A report of an MPI program as one HTML file that needs no network."""

from typing import Any

import numpy as np

from quarry._core import version
from quarry.mpi_report.analysis import KINDS, MpiContent
from quarry.mpi_report.text import at, counted, duration, facts_of, notes_of, share
from quarry.mpi_traces import ANY_SOURCE, Role
from quarry.report.page import filled, packed
from quarry.sizes import format_size

MAX_BARS = 20_000  # with more calls, or more ranks than MAX_ROWS, bins show what most time went to
MAX_ROWS = 128
TIME_BINS = 1000
MAX_CALLS = 100  # rows of tables
MAX_CULPRITS = 20
MEMORY_ROLES = (Role.ALLOCATE, Role.FREE)


def hover_of(content: MpiContent, record: int) -> str:
    trace = content.trace
    row = trace.records[record]
    text = at(trace.function(int(row["function"])), trace.place(int(row["place"])))
    if int(row["role"]) in MEMORY_ROLES:
        return f"{text}, {format_size(int(row['bytes']))}" if row["bytes"] else text
    peer = int(row["peer"])
    if peer >= 0 or peer == ANY_SOURCE:
        text += f", rank {peer}" if peer >= 0 else ", any rank"
    if row["bytes"]:
        text += f", {format_size(int(row['bytes']))}"
    return text + (", has not returned" if trace.is_open[record] else "")


def bars_of(content: MpiContent) -> dict[str, Any]:
    """Each call as a bar. The first half of MPI_Sendrecv has the place of the second."""
    trace = content.trace
    shown = np.flatnonzero(trace.records["role"] != Role.SEND_PART)
    waits = content.waits
    losses = dict(
        zip(
            waits.record.tolist(),
            zip(waits.lost.tolist(), trace.rank[waits.cause].tolist(), strict=True),
            strict=True,
        )
    )
    texts = []
    for record in shown.tolist():
        text = f"{hover_of(content, record)}<br>{duration(content.end[record] - content.begin[record])}"
        if record in losses:
            text += f", of which {duration(losses[record][0])} for rank {losses[record][1]}"
        texts.append(text)
    return {
        "rank": packed(trace.rank[shown], "u4"),
        "begin": packed(content.begin[shown] * 1e-9, "f8"),
        "end": packed(content.end[shown] * 1e-9, "f8"),
        "kind": packed(content.kind[shown], "i1"),
        "texts": texts,
    }


def time_in_bins(
    shape: tuple[int, int], row: np.ndarray, begin: np.ndarray, end: np.ndarray
) -> np.ndarray:
    """The sum of intervals in each bin of a row; `begin` and `end` are positions in bins."""
    rows, columns = shape
    changes = np.zeros(rows * (columns + 1))
    for position, sign in ((begin, 1.0), (end, -1.0)):
        bin_of = np.minimum(position.astype(np.int64), columns - 1)
        rest = bin_of + 1 - position  # of the bin, after the position
        place = row * (columns + 1) + bin_of
        changes += np.bincount(place, sign * rest, len(changes))
        changes += np.bincount(place + 1, sign * (1 - rest), len(changes))
    result: np.ndarray = np.cumsum(changes.reshape(rows, columns + 1), axis=1)[:, :columns]
    return result


def shares_of(content: MpiContent, bins: int, per_bin: int) -> np.ndarray:
    """The share of each kind in the time of each bin of ranks and times."""
    trace, width = content.trace, max(content.duration, 1) / TIME_BINS
    shape = (bins, TIME_BINS)
    shares = np.zeros((len(KINDS), *shape))
    shown = trace.records["role"] != Role.SEND_PART
    for kind in range(1, len(KINDS)):
        own = np.flatnonzero(shown & (content.kind == kind))
        shares[kind] = time_in_bins(
            shape, trace.rank[own] // per_bin, content.begin[own] / width, content.end[own] / width
        )
    # a rank computes between its first and its last call when it is in none
    some = np.flatnonzero(trace.first[1:] > trace.first[:-1])
    first, last = trace.first[some], trace.first[some + 1] - 1
    active = time_in_bins(
        shape, some // per_bin, content.begin[first] / width, content.end[last] / width
    )
    shares[0] = active - shares[1:].sum(axis=0)
    ranks = np.full(bins, float(per_bin))
    ranks[-1] = trace.ranks - per_bin * (bins - 1)
    return np.clip(shares / ranks[None, :, None], 0, 1)


def bins_of(content: MpiContent) -> dict[str, Any]:
    """What most time of each bin went to."""
    ranks = content.trace.ranks
    per_bin = -(-ranks // min(ranks, MAX_ROWS * 2))
    bins = -(-ranks // per_bin)
    shares = shares_of(content, bins, per_bin)
    main = shares.argmax(axis=0)
    is_idle = shares.max(axis=0) < 1e-9
    return {
        "rows": bins,
        "columns": TIME_BINS,
        "ranks_per_bin": per_bin,
        "main": packed(np.where(is_idle, -1, main), "i1"),
        "share": packed(np.round(shares.max(axis=0) * 100), "u1"),
        "waiting": packed(np.round((shares[2] + shares[3]) * 100), "u1"),
    }


def tables_of(content: MpiContent) -> dict[str, Any]:
    total = int(content.busy.sum())
    calls = [
        [
            at(row.function, row.place),
            f"{row.calls:,}",
            duration(row.time),
            duration(row.lost) if row.lost else "",
            share(row.lost, total) if row.lost else "",
            f"rank {row.culprit} ({share(row.culprit_lost, row.lost)})" if row.lost else "",
        ]
        for row in content.calls[:MAX_CALLS]
    ]
    culprits = [
        [
            f"rank {row.rank}",
            duration(row.lost),
            share(row.lost, content.lost),
            f"{counted(row.waits, 'call')} of {counted(row.waiters, 'rank')}",
            at(row.function, row.place),
        ]
        for row in content.culprits[:MAX_CULPRITS]
    ]
    more = len(content.culprits) - len(culprits)
    return {"calls": calls, "culprits": culprits, "more_culprits": max(more, 0)}


def data_of(content: MpiContent) -> dict[str, Any]:
    trace, matrix = content.trace, content.matrix
    shown = int((trace.records["role"] != Role.SEND_PART).sum())
    has_bars = shown <= MAX_BARS and trace.ranks <= MAX_ROWS
    return {
        "axes": [{"unit": "s", "range": [0, max(content.duration * 1e-9, 1e-9)]}],
        "kinds": KINDS,
        "ranks": trace.ranks,
        "facts": facts_of(content),
        "notes": notes_of(content),
        "bars": bars_of(content) if has_bars else None,
        "bins": None if has_bars else bins_of(content),
        "matrix": {
            "size": len(matrix.messages),
            "ranks_per_bin": matrix.ranks_per_bin,
            "messages": packed(matrix.messages, "f8"),
            "bytes": packed(matrix.bytes, "f8"),
        },
        "tables": tables_of(content),
        "version": version,
    }


def html_of(content: MpiContent, title: str) -> str:
    return filled("mpi.html", title, data_of(content), ["texts", "charts", "mpi"])
