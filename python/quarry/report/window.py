# SPDX-License-Identifier: Apache-2.0
"""The part of a trace that a report shows, and how its events are spread over time."""

import re
from dataclasses import dataclass
from decimal import Decimal

import numpy as np

from quarry.errors import BadArgument
from quarry.report.lifetimes import Naturals

#: Nanoseconds of each unit of time.
TIMES = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
GRAMMAR = "an event's number, such as 12000, or a time with a unit (s, ms, us, ns), such as 1.5s"

WIDE = 0.25  # the least share of a time axis that 90 % of the events need to be told apart


@dataclass(frozen=True)
class Position:
    """A place in a trace: an event's number, or nanoseconds since the first event."""

    value: int
    is_time: bool

    def __str__(self) -> str:
        return f"{Decimal(self.value).scaleb(-9).normalize():f} s" if self.is_time else f"event {self.value:,}"


def position_of(text: str) -> Position:
    """Raises BadArgument unless the text is as `GRAMMAR` says."""
    found = re.fullmatch(r"(\d{1,18})|(\d{1,18}(?:\.\d*)?|\.\d+) ?(s|ms|us|ns)", text.strip())
    if found is None:
        raise BadArgument(f"{text!r} is no position in a trace: it must be {GRAMMAR}")
    if found[1]:
        return Position(int(found[1]), False)
    return Position(round(Decimal(found[2]) * TIMES[found[3]]), True)


@dataclass(frozen=True)
class Window:
    """The range of events that a report shows; None is the trace's first or last event."""

    begin: Position | None = None
    end: Position | None = None

    def __post_init__(self) -> None:
        begin, end = self.begin, self.end
        if begin and end and begin.is_time == end.is_time and begin.value > end.value:
            raise BadArgument(f"report: the range ends at {end}, before it begins at {begin}")

    def before_end(self, times: Naturals, number: int, origin: int) -> int:
        """How many events of a batch are not behind the end. The batch has the events from `number`
        on, at `times`; `origin` is the time of the trace's first event."""
        if self.end is None:
            return len(times)
        return count_before(self.end, times, number, origin, after_position=True)

    def before_begin(self, times: Naturals, number: int, origin: int) -> int:
        """How many events of a batch are before the begin."""
        if self.begin is None:
            return 0
        return count_before(self.begin, times, number, origin, after_position=False)

    def __str__(self) -> str:
        begin, end = self.begin or "the first event", self.end or "the last one"
        return f"from {begin} to {end}"


def window_of(begin: str | int | None, end: str | int | None) -> Window:
    """The window from a position to another one, each as `GRAMMAR` says; empty or None for all."""

    def position(text: str | int | None) -> Position | None:
        return None if text is None or text == "" else position_of(str(text))

    return Window(position(begin), position(end))


def count_before(
    position: Position, times: Naturals, number: int, origin: int, *, after_position: bool
) -> int:
    """How many events of a batch are before a position, or at it with `after_position`."""
    if not position.is_time:
        return int(np.clip(position.value - number + after_position, 0, len(times)))
    time = np.uint64(min(origin + position.value, 2**64 - 1))
    return int(np.searchsorted(times, time, "right" if after_position else "left"))


class TimeSpread:
    """A sample of the times of events: every n-th one, so that at most 65,536 are kept."""

    def __init__(self, limit: int = 1 << 16) -> None:
        self._limit, self._stride, self._next = limit, 1, 0
        self._times: list[Naturals] = []
        self._count = 0

    def add(self, times: Naturals) -> None:
        """Adds the times of the next events, which never decrease."""
        chosen = times[self._next :: self._stride]
        self._next += len(chosen) * self._stride - len(times)
        self._times.append(chosen)
        self._count += len(chosen)
        if self._count > self._limit:
            kept = np.concatenate(self._times)
            step = -(-len(kept) // self._limit)
            self._next += (-len(kept) % step) * self._stride  # the next one keeps the distance
            self._times = [kept[::step]]
            self._count = len(self._times[0])
            self._stride *= step

    def is_narrow(self) -> bool:
        """Whether an axis of time squeezes most events into a corner.

        This is so if 90 % of the events lie in less than a quarter of the axis: in fewer than 25 of
        100 parts of equal length.
        """
        times = np.concatenate([np.zeros(0, np.uint64), *self._times])
        if len(times) < 2 or times[0] == times[-1]:
            return False
        since_first = (times - times[0]).astype(np.float64)
        counts = np.sort(np.histogram(since_first, 100)[0])[::-1]
        needed = 1 + int(np.searchsorted(np.cumsum(counts), 0.9 * len(times)))
        return needed < 100 * WIDE
