# SPDX-License-Identifier: Apache-2.0
"""The time of a trace from the CPU, as if each rank had a processor of its own.

On the CPU the ranks take turns on one thread, so a rank's waits contain the work of all others. But
what a rank does between two calls is measured, since ranks take turns only in calls. So the waits
follow from the messages: a receive ends when its message has been sent, a barrier when the last
rank has come. A call itself takes no time here if it can wait, else what was measured since another rank
ran.
"""

import numpy as np

from quarry.mpi_report.matching import Matches
from quarry.mpi_traces import MpiTrace, Role

WAITING = (Role.SEND, Role.RECEIVE, Role.WAIT, Role.COLLECTIVE, Role.PROBE)
#: Operations in which a rank waits for the root alone, and in which the root alone waits.
FROM_ROOT = ("Bcast", "bcast", "Scatter", "scatter", "Scatterv", "scatterv")
TO_ROOT = ("Reduce", "reduce", "Gather", "gather", "Gatherv", "gatherv")
#: Sends that always wait for their receives.
SYNCHRONOUS = ("MPI_Ssend", "MPI_Issend", "MPI_Ssend_init")


def kinds_of(trace: MpiTrace) -> np.ndarray:
    """Of each function: 1 if all wait for the root, 2 if the root waits for all, else 0."""
    kinds = np.zeros(len(trace.functions) + 1, np.int8)
    for number, name in enumerate(trace.functions):
        base = name.removeprefix("MPI_").removeprefix("I").removesuffix("_init")
        kinds[number] = 1 if base in FROM_ROOT else 2 if base in TO_ROOT else 0
    return kinds


def causes_of(trace: MpiTrace, matches: Matches) -> list[list[int]]:
    """Of each record: the records whose begin it waits for, apart from collective operations."""
    begin, end = trace.records["begin"], trace.records["end"]
    role, link = trace.records["role"], waiters_of(trace)
    causes: list[list[int]] = [[] for _ in range(len(begin))]
    functions = np.array([name in SYNCHRONOUS for name in trace.functions] + [False])
    is_synchronous = functions[np.minimum(trace.records["function"], len(trace.functions))]
    for send, receive in zip(matches.send.tolist(), matches.receive.tolist(), strict=True):
        if (waiter := int(link[receive])) >= 0:
            causes[waiter].append(send)
        # A send of another kind waits for its receive if the receive began during the call.
        sender = int(link[send])
        if sender < 0 or role[send] == Role.SEND_PART:
            continue
        if is_synchronous[send] or begin[sender] < begin[receive] < end[sender]:
            causes[sender].append(receive)
    for probe, send in zip(matches.probe.tolist(), matches.probed_send.tolist(), strict=True):
        causes[probe].append(send)
    return causes


def waiters_of(trace: MpiTrace) -> np.ndarray:
    """Of each record: the record of the call in which the program waits for it. That is the record
    itself, or the call that completed what it began; -1 if there is none.
    """
    own = np.arange(len(trace.records))
    linked = trace.first[trace.rank] + trace.records["link"].astype(np.int64) - 1
    linked = np.where(trace.records["link"] > 0, linked, -1)
    linked = np.where(linked < trace.first[trace.rank + 1], linked, -1)
    return np.where(trace.records["role"] >= Role.BEGUN_SEND, linked, own)


def as_if_parallel(trace: MpiTrace, matches: Matches) -> tuple[np.ndarray, np.ndarray]:
    """Begins and ends of the records, in nanoseconds."""
    records = trace.records
    count = len(records)
    begin, end = records["begin"].astype(np.int64), records["end"].astype(np.int64)
    causes = causes_of(trace, matches)
    operation = np.full(count, -1)
    operation[matches.member] = matches.operation
    waiter = waiters_of(trace)
    for member in matches.member.tolist():  # MPI_Wait for MPI_Ibarrier
        if waiter[member] >= 0 and waiter[member] != member:
            causes[int(waiter[member])].append(member)
    kind = kinds_of(trace)[np.minimum(records["function"], len(trace.functions))]
    can_wait = np.isin(records["role"], np.array(WAITING, np.uint16)).tolist()
    root = records["peer"].tolist()
    latest: dict[int, int] = {}  # of each operation: the last begin until now
    of_root: dict[int, int] = {}
    now = [0] * trace.ranks
    measured = [0] * trace.ranks  # the time of the rank's last begin or end
    is_first = [True] * trace.ranks
    new_begin, new_end = [0] * count, [0] * count
    times = np.concatenate([begin, end])
    # At equal times the ends come first; a call's own end follows its begin.
    order = np.lexsort([np.tile(np.arange(count), 2), np.repeat([0, 1], count), times])
    rank_of, of = trace.rank.tolist(), operation.tolist()
    kind_of, begins, ends = kind.tolist(), begin.tolist(), end.tolist()

    def collective_end(record: int) -> int:
        at, which = of[record], kind_of[record]
        if which == 1:
            return of_root.get(at, 0)
        if which == 2 and root[record] != rank_of[record]:
            return 0
        return latest.get(at, 0)

    previous = 0  # the time of the last begin or end of any rank
    for event in order.tolist():
        record = event if event < count else event - count
        rank = rank_of[record]
        if event < count:
            if is_first[rank]:  # ranks start together
                measured[rank], is_first[rank] = begins[record], False
            now[rank] += max(begins[record] - measured[rank], 0)
            measured[rank] = begins[record]
            new_begin[record] = new_end[record] = now[rank]
            if (at := of[record]) >= 0:
                latest[at] = max(latest.get(at, 0), now[rank])
                if root[record] == rank:
                    of_root[at] = now[rank]
            previous = begins[record]
            continue
        if not can_wait[record]:
            now[rank] += max(ends[record] - max(measured[rank], previous), 0)
        else:
            for cause in causes[record]:
                at = of[cause]
                now[rank] = max(now[rank], collective_end(cause) if at >= 0 else new_begin[cause])
            if of[record] >= 0:
                now[rank] = max(now[rank], collective_end(record))
        measured[rank] = previous = ends[record]
        new_end[record] = now[rank]
    last = max(new_end, default=0)
    for record in np.flatnonzero(trace.is_open).tolist():
        new_end[record] = max(last, new_begin[record])
    return np.array(new_begin, np.int64), np.array(new_end, np.int64)
