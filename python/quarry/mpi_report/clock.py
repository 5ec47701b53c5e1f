# SPDX-License-Identifier: Apache-2.0
"""The time of a trace from the CPU, as if each rank had a processor of its own.

On the CPU the ranks take turns on a thread, so a rank's waits contain the work of others. But each
record says how long the rank itself had run and slept. So what a rank does between two calls is
measured, and the waits follow from the messages: a receive ends when its message has been sent, a
barrier when the last rank has come. A call that can wait takes no time itself; another one takes
what its rank ran.
"""

from dataclasses import dataclass

import numpy as np

from quarry.mpi_report.matching import Matches
from quarry.mpi_traces import Flag, MpiTrace, Role

WAITING = (Role.SEND, Role.SEND_PART, Role.RECEIVE, Role.WAIT, Role.COLLECTIVE, Role.PROBE)
#: Operations in which a rank waits for the root alone, and in which the root alone waits.
FROM_ROOT = ("Bcast", "bcast", "Scatter", "scatter", "Scatterv", "scatterv")
TO_ROOT = ("Reduce", "reduce", "Gather", "gather", "Gatherv", "gatherv")


@dataclass
class ParallelTimes:
    """Nanoseconds, as if each rank had a processor."""

    begin: np.ndarray  # of each record
    end: np.ndarray
    last: np.ndarray  # of each rank: its end, or the end of its last call that has returned


def kinds_of(trace: MpiTrace) -> np.ndarray:
    """Of each function: 1 if all wait for the root, 2 if the root waits for all, else 0."""
    kinds = np.zeros(len(trace.functions) + 1, np.int8)
    for number, name in enumerate(trace.functions):
        base = name.removesuffix("_c").removesuffix("_init").removeprefix("MPI_").removeprefix("I")
        kinds[number] = 1 if base in FROM_ROOT else 2 if base in TO_ROOT else 0
    return kinds


def is_bystander(trace: MpiTrace) -> np.ndarray:
    """Of each record: whether its rank only belongs to the root's group, in an operation between two
    groups. Nobody waits for it, and it for nobody.
    """
    kind = kinds_of(trace)[np.minimum(trace.records["function"], len(trace.functions))]
    result: np.ndarray = (kind != 0) & (trace.records["peer"] < 0)
    return result


def causes_of(trace: MpiTrace, matches: Matches) -> list[list[int]]:
    """Of each record: the records whose begin it waits for, apart from collective operations."""
    link = waiters_of(trace)
    causes: list[list[int]] = [[] for _ in range(len(link))]
    waits = trace.has(Flag.SEND_WAITS)
    for send, receive in zip(matches.send.tolist(), matches.receive.tolist(), strict=True):
        if (waiter := int(link[receive])) >= 0:
            causes[waiter].append(send)
        if waits[send] and (sender := int(link[send])) >= 0:
            causes[sender].append(receive)
    for probe, send in zip(matches.probe.tolist(), matches.probed_send.tolist(), strict=True):
        causes[probe].append(send)
    return causes


def waiters_of(trace: MpiTrace) -> np.ndarray:
    """Of each record: the record of the call in which the program waits for it. That is the record
    itself, or the call that completed what it began; -1 if there is none. The first half of
    MPI_Sendrecv ends with the second.
    """
    count = len(trace.records)
    own = np.arange(count)
    linked = trace.first[trace.rank] + trace.records["link"].astype(np.int64) - 1
    linked = np.where(trace.records["link"] > 0, linked, -1)
    linked = np.where(linked < trace.first[trace.rank + 1], linked, -1)
    waiters = np.where(trace.records["role"] >= Role.BEGUN_SEND, linked, own)
    parts = np.flatnonzero(trace.records["role"] == Role.SEND_PART)
    second = np.minimum(parts + 1, max(count - 1, 0))
    has_second = (parts + 1 < trace.first[trace.rank[parts] + 1]) & ~trace.is_after_gap[second]
    waiters[parts] = np.where(has_second, waiters[second], -1)
    return waiters


def as_if_parallel(trace: MpiTrace, matches: Matches) -> ParallelTimes:
    records = trace.records
    count = len(records)
    causes = causes_of(trace, matches)
    operation = np.full(count, -1)
    operation[matches.member] = matches.operation
    waiter = waiters_of(trace)
    for member in matches.member.tolist():  # MPI_Wait for MPI_Ibarrier
        if waiter[member] >= 0 and waiter[member] != member:
            causes[int(waiter[member])].append(member)
    kind = kinds_of(trace)[np.minimum(records["function"], len(trace.functions))]
    can_wait = np.isin(records["role"], np.array(WAITING, np.uint8)).tolist()
    root = records["peer"].tolist()
    latest: dict[int, int] = {}  # of each operation: the last begin until now
    of_root: dict[int, int] = {}
    now = [0] * trace.ranks
    # Of each rank: its own time at its last begin or end. Ranks start together, at their first calls.
    own = trace.ended.tolist()
    some = np.flatnonzero(trace.first[1:] > trace.first[:-1])
    for rank, start in zip(some.tolist(), records["own_begin"][trace.first[some]].tolist(), strict=True):
        own[rank] = start
    new_begin, new_end = [0] * count, [0] * count
    times = np.concatenate([records["begin"].astype(np.int64), records["end"].astype(np.int64)])
    # At equal times the begins come first.
    order = np.lexsort([np.tile(np.arange(count), 2), np.repeat([0, 1], count), times])
    rank_of, of, kind_of = trace.rank.tolist(), operation.tolist(), kind.tolist()
    own_begin, own_end = records["own_begin"].tolist(), records["own_end"].tolist()
    is_open, bystander = trace.is_open.tolist(), is_bystander(trace).tolist()

    def collective_end(record: int) -> int:
        at, which = of[record], kind_of[record]
        if bystander[record]:
            return 0
        if which == 1:
            return of_root.get(at, 0)
        if which == 2 and root[record] != rank_of[record]:
            return 0
        return latest.get(at, 0)

    for event in order.tolist():
        record = event if event < count else event - count
        rank = rank_of[record]
        if event < count:
            now[rank] += max(own_begin[record] - own[rank], 0)
            own[rank] = own_begin[record]
            new_begin[record] = new_end[record] = now[rank]
            if (at := of[record]) >= 0 and not bystander[record]:
                latest[at] = max(latest.get(at, 0), now[rank])
                if root[record] == rank:
                    of_root[at] = now[rank]
            continue
        if is_open[record]:
            continue
        if not can_wait[record]:
            now[rank] += max(own_end[record] - own[rank], 0)
        else:
            for cause in causes[record]:
                at = of[cause]
                now[rank] = max(now[rank], collective_end(cause) if at >= 0 else new_begin[cause])
            if of[record] >= 0:
                now[rank] = max(now[rank], collective_end(record))
        own[rank] = own_end[record]
        new_end[record] = now[rank]
    has_open = np.zeros(trace.ranks, bool)
    has_open[trace.rank[trace.is_open]] = True
    for rank in np.flatnonzero((trace.ended > 0) & ~has_open).tolist():
        now[rank] += max(int(trace.ended[rank]) - own[rank], 0)
    last = max(now, default=0)
    for record in np.flatnonzero(trace.is_open).tolist():
        new_end[record] = max(last, new_begin[record])
    return ParallelTimes(
        np.array(new_begin, np.int64), np.array(new_end, np.int64), np.array(now, np.int64)
    )
