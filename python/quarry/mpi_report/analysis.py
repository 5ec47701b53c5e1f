# SPDX-License-Identifier: Apache-2.0
"""What a report shows of a trace of an MPI program."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from quarry.mpi_report.clock import WAITING, as_if_parallel
from quarry.mpi_report.matching import Matches, match
from quarry.mpi_report.waits import Waits, waits_of
from quarry.mpi_traces import Flag, MpiTrace, Role

#: What a record's bar shows, by role.
KINDS = ["computes", "sends", "receives or waits", "collective", "malloc or free", "other MPI"]
KIND_OF_ROLE = {
    Role.SEND: 1, Role.SEND_PART: 1, Role.BEGUN_SEND: 1,
    Role.RECEIVE: 2, Role.WAIT: 2, Role.PROBE: 2, Role.BEGUN_RECEIVE: 2,
    Role.COLLECTIVE: 3, Role.BEGUN_COLLECTIVE: 3,
    Role.ALLOCATE: 4, Role.FREE: 4, Role.CALL: 5,
}  # fmt: skip
MAX_BINS = 256  # of ranks in the matrix


@dataclass
class CallRow:
    """The calls of a function at a place."""

    function: str
    place: str
    calls: int
    time: int  # ns, of all ranks together
    lost: int
    culprit: int  # the rank for which they waited longest; -1 if for none
    culprit_lost: int


@dataclass
class CulpritRow:
    """A rank for which others waited."""

    rank: int
    lost: int  # ns, of the others together
    waits: int
    waiters: int  # how many ranks
    function: str  # of the call to which it came late, that cost most
    place: str


@dataclass
class Memory:
    """Of all ranks together."""

    allocations: int
    bytes: int
    freed: int


@dataclass
class Matrix:
    """Messages by source (rows) and target; a bin holds `ranks_per_bin` ranks."""

    ranks_per_bin: int
    messages: np.ndarray
    bytes: np.ndarray


@dataclass
class Between:
    """Messages between ranks of different GPUs."""

    messages: int
    bytes: int


@dataclass
class MpiContent:
    """A trace with what follows from it. `begin` and `end` of each record are nanoseconds."""

    trace: MpiTrace
    matches: Matches
    waits: Waits
    begin: np.ndarray
    end: np.ndarray
    last: np.ndarray  # of each rank: its end; or the end of its last call, if it is not known
    is_reconstructed: bool  # the times are those of clock.as_if_parallel
    kind: np.ndarray  # of each record: an index of KINDS
    calls: list[CallRow]
    culprits: list[CulpritRow]
    matrix: Matrix
    between_gpus: Between
    memory: Memory

    @property
    def duration(self) -> int:
        return int(max(self.end.max(), self.last.max())) if len(self.end) else 0

    @property
    def busy(self) -> np.ndarray:
        """Of each rank: the nanoseconds from its first call's begin to its end."""
        first, trace = self.trace.first, self.trace
        result = np.zeros(trace.ranks, np.int64)
        some = np.flatnonzero(first[1:] > first[:-1])
        ends = np.maximum(self.end[first[some + 1] - 1], self.last[some])
        result[some] = ends - self.begin[first[some]]
        return result

    @property
    def call_count(self) -> int:
        return int(is_call(self.trace).sum())

    @property
    def unfinished(self) -> np.ndarray:
        """Calls that wait and had not returned when the program ended."""
        waits = np.isin(self.trace.records["role"], np.array(WAITING, np.uint8))
        return np.flatnonzero(self.trace.is_open & waits)

    @property
    def lost(self) -> int:
        return int(self.waits.lost.sum())


def is_call(trace: MpiTrace) -> np.ndarray:
    """Of each record: whether it is that of a call, and not a part of one."""
    result: np.ndarray = trace.call == np.arange(len(trace.records))
    return result


def codes_of(trace: MpiTrace, records: np.ndarray) -> np.ndarray:
    """Of each record: a number for the function and the place of its call."""
    calls = trace.records[trace.call[records]]
    code: np.ndarray = calls["function"].astype(np.int64) << 32 | calls["place"].astype(np.int64)
    return code


def sum_by(index: np.ndarray, values: np.ndarray, count: int) -> np.ndarray:
    return np.bincount(index, weights=values.astype(float), minlength=count).astype(np.int64)


def main_cause(
    group: np.ndarray, cause: np.ndarray, lost: np.ndarray
) -> dict[int, tuple[int, int]]:
    """Of each group: the cause with the largest sum of lost time, and this sum."""
    if not len(group):
        return {}
    order = np.lexsort([cause, group])
    group, cause, lost = group[order], cause[order], lost[order]
    is_first = np.ones(len(group), bool)
    is_first[1:] = (group[1:] != group[:-1]) | (cause[1:] != cause[:-1])
    starts = np.flatnonzero(is_first)
    sums = np.add.reduceat(lost, starts)
    best: dict[int, tuple[int, int]] = {}
    for which, who, total in zip(
        group[starts].tolist(), cause[starts].tolist(), sums.tolist(), strict=True
    ):
        if which not in best or total > best[which][1]:
            best[which] = (who, total)
    return best


def call_rows(trace: MpiTrace, waits: Waits, time: np.ndarray) -> list[CallRow]:
    codes, of = np.unique(codes_of(trace, np.arange(len(trace.records))), return_inverse=True)
    counts = np.bincount(of[is_call(trace)], minlength=len(codes))
    times = sum_by(of, time, len(codes))
    lost = sum_by(of[waits.record], waits.lost, len(codes))
    culprits = main_cause(of[waits.record], trace.rank[waits.cause], waits.lost)
    rows = [
        CallRow(
            trace.function(number >> 32),
            trace.place(number & 0xFFFFFFFF),
            int(counts[i]),
            int(times[i]),
            int(lost[i]),
            *culprits.get(i, (-1, 0)),
        )
        for i, number in enumerate(codes.tolist())
    ]
    return sorted(rows, key=lambda row: (-row.lost, -row.time, row.place))


def culprit_rows(trace: MpiTrace, waits: Waits) -> list[CulpritRow]:
    if not len(waits.record):
        return []
    culprit, waiter = trace.rank[waits.cause], trace.rank[waits.record]
    lost = sum_by(culprit, waits.lost, trace.ranks)
    counts = np.bincount(culprit, minlength=trace.ranks)
    pairs = np.unique(culprit * trace.ranks + waiter) // trace.ranks
    waiters = np.bincount(pairs, minlength=trace.ranks)
    where = main_cause(culprit, codes_of(trace, waits.cause), waits.lost)
    return [
        CulpritRow(
            rank,
            int(lost[rank]),
            int(counts[rank]),
            int(waiters[rank]),
            trace.function(where[rank][0] >> 32),
            trace.place(where[rank][0] & 0xFFFFFFFF),
        )
        for rank in np.argsort(-lost, kind="stable").tolist()
        if lost[rank] > 0
    ]


def matrix_of(trace: MpiTrace, sends: np.ndarray) -> Matrix:
    bins = min(trace.ranks, MAX_BINS)
    ranks_per_bin = -(-trace.ranks // bins)
    bins = -(-trace.ranks // ranks_per_bin)
    place = trace.rank[sends] // ranks_per_bin * bins
    place += trace.records["peer"][sends] // ranks_per_bin
    shape = (bins, bins)
    return Matrix(
        ranks_per_bin,
        np.bincount(place, minlength=bins * bins).reshape(shape),
        sum_by(place, trace.records["bytes"][sends], bins * bins).reshape(shape),
    )


def between_gpus(trace: MpiTrace, sends: np.ndarray) -> Between:
    first = np.array(trace.gpu_ranks, np.int64)
    source, target = trace.rank[sends], trace.records["peer"][sends]
    crosses = np.searchsorted(first, source, "right") != np.searchsorted(first, target, "right")
    return Between(int(crosses.sum()), int(trace.records["bytes"][sends][crosses].sum()))


def memory_of(trace: MpiTrace) -> Memory:
    records = trace.records
    has_address = (records["peer"] != 0) | (records["tag"] != 0)
    made = (records["role"] == Role.ALLOCATE) & has_address & ~trace.is_open
    freed = ((records["role"] == Role.FREE) & has_address) | trace.has(Flag.FREES_OLD)
    return Memory(int(made.sum()), int(records["bytes"][made].sum()), int(freed.sum()))


def analyse(trace: MpiTrace, step: Callable[[str], object] = lambda name: None) -> MpiContent:
    """`step` is called with the name of each step."""
    step("matching messages")
    matches = match(trace)
    is_reconstructed = trace.device == "cpu"
    begin, end = (trace.records[name].astype(np.int64) for name in ("begin", "end"))
    last = np.zeros(trace.ranks, np.int64)
    if is_reconstructed:
        step("finding the time of each rank")
        times = as_if_parallel(trace, matches)
        begin, end, last = times.begin, times.end, times.last
    step("finding waits")
    waits = waits_of(trace, matches, begin, end)
    kinds = np.full(len(Role), 5, np.int8)
    for role, kind in KIND_OF_ROLE.items():
        kinds[role] = kind
    # the receive of MPI_Sendrecv has the same time
    time = np.where(trace.records["role"] == Role.SEND_PART, 0, end - begin)
    return MpiContent(
        trace=trace,
        matches=matches,
        waits=waits,
        begin=begin,
        end=end,
        last=last,
        is_reconstructed=is_reconstructed,
        kind=kinds[np.minimum(trace.records["role"], len(Role) - 1)],
        calls=call_rows(trace, waits, time),
        culprits=culprit_rows(trace, waits),
        matrix=matrix_of(trace, matches.sends),
        between_gpus=between_gpus(trace, matches.sends),
        memory=memory_of(trace),
    )
