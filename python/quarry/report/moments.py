# SPDX-License-Identifier: Apache-2.0
"""An index of allocations by the events at which they are in use, for the page.

A trace may have millions of allocations, and the page lists those in use at one event. So the index
stores each allocation once, in the smallest bin that has all its events. Bins have `LEAF` events,
or 8, 64, ... times as many. The page decodes one bin of each width to find all allocations that are
in use at an event. A bin of many leaves has only allocations that are in use at one of its seven
inner borders, so what is decoded grows with the number of allocations in use, not with the trace.
"""

import struct
import zlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from quarry.report.lifetimes import Integers, Lifetimes, joined

LEAF = 1 << 14  # events of the smallest bins
FANOUT = 8  # by which the next larger bins are wider
MAX_INDEXED = 8_000_000  # allocations


@dataclass(frozen=True)
class Bin:
    """Allocations of a range of events, as `packed_bin` writes them."""

    level: int  # a bin of this level has LEAF * FANOUT**level events
    number: int  # of the bin among those of its level
    data: bytes


def least_indexed(counts: Integers) -> int:
    """The least size in bytes of indexed allocations, so that there are at most `MAX_INDEXED`; 0
    if these are all. `counts` has the number of allocations of each class of sizes."""
    if counts.sum() <= MAX_INDEXED:
        return 0
    atleast = np.cumsum(counts[::-1])[::-1]  # allocations of each class and the larger ones
    return 1 << int(np.argmax(atleast <= MAX_INDEXED))


class MomentIndex:
    """Collects allocations, and packs a bin as soon as the trace is read beyond the bin's end."""

    def __init__(self, first: int, events: int, origin: int, least: int = 0) -> None:
        self.first = first  # the event that begins the first bin of each level
        self.levels = 1
        while LEAF * FANOUT ** (self.levels - 1) < events - first:
            self.levels += 1
        self._origin, self.least = origin, least
        self._open: dict[tuple[int, int], list[Lifetimes]] = {}
        self.bins: list[Bin] = []
        self.count = 0

    def add(self, lifetimes: Lifetimes) -> None:
        """Adds allocations, of which those count that are in use at event `first` or later."""
        chosen = lifetimes[(lifetimes.end > self.first) & (lifetimes.size >= self.least)]
        if not len(chosen):
            return
        self.count += len(chosen)
        begin = np.maximum(chosen.start - self.first, 0) // LEAF
        last = (chosen.end - 1 - self.first) // LEAF
        level = np.zeros(len(chosen), np.int64)
        while (is_apart := begin != last).any():
            level[is_apart] += 1
            begin[is_apart] //= FANOUT
            last[is_apart] //= FANOUT
        order = np.lexsort((chosen.start, begin, level))
        ordered, level, begin = chosen[order], level[order], begin[order]
        is_new = np.append(True, (level[1:] != level[:-1]) | (begin[1:] != begin[:-1]))
        borders = np.append(np.flatnonzero(is_new), len(order)).tolist()
        for low, high in zip(borders[:-1], borders[1:], strict=True):
            key = (int(level[low]), int(begin[low]))
            self._open.setdefault(key, []).append(ordered[low:high])

    def close(self, events: int | None = None) -> None:
        """Packs the bins that end before event number `events`; all bins without it. An
        allocation that ends at an event belongs to the bin before that event, so a bin that ends at
        event number `events` may still grow."""
        for key in sorted(self._open):
            level, number = key
            if events is None or self.first + (number + 1) * LEAF * FANOUT**level < events:
                parts = joined(self._open.pop(key))
                ordered = parts[np.argsort(parts.start, kind="stable")]
                data = packed_bin(ordered, self._origin)
                self.bins.append(Bin(level, number, data))


def packed_bin(lifetimes: Lifetimes, origin: int) -> bytes:
    """Allocations in the order of their starts, compressed.

    A header has their count, the number of bytes of a value in each column, and the first
    allocation's start and time. A column has the lowest bytes of all its values, then the next
    higher ones, and so on: equal bytes lie side by side, and the page can read single rows.
    """
    start = lifetimes.start
    time = lifetimes.start_time - np.uint64(origin)
    columns: list[npt.NDArray[np.generic]] = [
        np.diff(start, prepend=start[:1]),
        lifetimes.end - start,
        np.diff(time, prepend=time[:1]),
        lifetimes.size,
        lifetimes.granted,
        lifetimes.address,
        lifetimes.call_site,
        lifetimes.stream,
        lifetimes.allocator,
    ]
    planes = [planes_of(column) for column in columns]
    header = struct.pack("<I", len(lifetimes)) + bytes(len(each) for each in planes) + bytes(3)
    header += struct.pack("<dd", float(start[0]), float(time[0]))
    return zlib.compress(header + b"".join(each.tobytes() for each in planes), 6)


def planes_of(values: npt.NDArray[np.generic]) -> npt.NDArray[np.uint8]:
    """The bytes of the values, lowest first: a row for each byte that a value needs."""
    wide = np.ascontiguousarray(values).astype("<u8")
    count = (int(wide.max(initial=0)).bit_length() + 7) // 8
    return np.ascontiguousarray(wide.view(np.uint8).reshape(-1, 8)[:, :count].T)
