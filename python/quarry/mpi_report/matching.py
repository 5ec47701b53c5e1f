# SPDX-License-Identifier: Apache-2.0
"""Which send a receive belongs to, and which calls are one collective operation."""

from dataclasses import dataclass

import numpy as np

from quarry.mpi_traces import SELF_COMMUNICATOR, Flag, MpiTrace, Role

SENDS = (Role.SEND, Role.SEND_PART, Role.BEGUN_SEND)
RECEIVES = (Role.RECEIVE, Role.BEGUN_RECEIVE)
COLLECTIVES = (Role.COLLECTIVE, Role.BEGUN_COLLECTIVE)


@dataclass
class Matches:
    """Numbers of records. `send[i]` and `receive[i]` are one message. `probe[i]` has found the
    message of `probed_send[i]`.

    `operation[i]` is the number of the collective operation of which `member[i]` is a call; calls
    of one operation follow each other.
    """

    sends: np.ndarray  # all messages, also those that were not received
    send: np.ndarray
    receive: np.ndarray
    probe: np.ndarray
    probed_send: np.ndarray
    member: np.ndarray
    operation: np.ndarray


def ordinals(keys: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Groups rows with equal keys. Returns an order in which groups lie together, with rows in
    their order; and for each row of that order, the group's number and the row's number in it.
    """
    count = len(keys[0])
    order = np.lexsort([np.arange(count), *reversed(keys)])
    is_first = np.ones(count, bool)
    if count:
        is_first[1:] = np.logical_or.reduce([key[order][1:] != key[order][:-1] for key in keys])
    group = np.cumsum(is_first) - 1
    starts = np.flatnonzero(is_first)
    return order, group, np.arange(count) - starts[group] if count else group


def of_roles(trace: MpiTrace, roles: tuple[Role, ...]) -> np.ndarray:
    chosen = np.isin(trace.records["role"], np.array(roles, np.uint16)) & ~trace.is_after_gap
    return np.flatnonzero(chosen)


def match_messages(trace: MpiTrace) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sends; and the matched sends and receives. MPI keeps the order of messages with equal source,
    target, communicator and tag, so the k-th send belongs to the k-th receive.
    """
    records = trace.records
    sends = of_roles(trace, SENDS)
    sends = sends[records["peer"][sends] >= 0]
    receives = of_roles(trace, RECEIVES)
    receives = receives[records["peer"][receives] >= 0]
    both = np.concatenate([sends, receives])
    is_receive = np.arange(len(both)) >= len(sends)
    own, peer = trace.rank[both], records["peer"][both].astype(np.int64)
    source, target = np.where(is_receive, peer, own), np.where(is_receive, own, peer)
    key = [source, target, records["communicator"][both], records["tag"][both]]
    order, _, number = ordinals([*key, is_receive])
    place = np.empty(len(both), np.int64)
    place[order] = number
    # Now a message is a pair of rows with equal key and number, the send first.
    order, _, within = ordinals([*key, place])
    rows = both[order]
    seconds = np.flatnonzero(within == 1)
    return sends, rows[seconds - 1], rows[seconds]


def match_probes(
    trace: MpiTrace, send: np.ndarray, receive: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Probes, and the sends that they found: those of the next equal receives of the rank."""
    records = trace.records
    probes = of_roles(trace, (Role.PROBE,))
    if not len(probes) or not len(receive):
        return probes[:0], probes[:0]
    rows = np.concatenate([probes, receive])
    sent = np.concatenate([np.full(len(probes), -1), send])
    key = [trace.rank[rows], records["communicator"][rows], records["peer"][rows], records["tag"][rows]]
    order = np.lexsort([rows, *reversed(key)])
    next_receive = np.where(sent[order] >= 0, np.arange(len(order)), len(order))
    next_receive = np.minimum.accumulate(next_receive[::-1])[::-1]
    at = np.flatnonzero((sent[order] < 0) & (next_receive < len(order)))
    found = next_receive[at]
    equal = np.logical_and.reduce([part[order][at] == part[order][found] for part in key])
    return rows[order][at[equal]], sent[order][found[equal]]


def series_of(trace: MpiTrace, calls: np.ndarray) -> np.ndarray:
    """Of each collective operation: 0, or for a start of the m-th persistent operation that its rank
    made for its communicator: m, from 1 on. -1 if that is not known.
    """
    records = trace.records
    made = np.flatnonzero(trace.has(Flag.MAKES_COLLECTIVE))
    order, _, number = ordinals([trace.rank[made], records["communicator"][made]])
    ordinal = np.full(len(records), -1)
    ordinal[made[order]] = number + 1
    first, last = trace.first[trace.rank[calls]], trace.first[trace.rank[calls] + 1]
    maker = first + records["tag"][calls] - 1
    is_known = (maker >= first) & (maker < last)
    series = np.where(is_known, ordinal[np.where(is_known, maker, 0)], -1)
    return np.where(trace.has(Flag.IS_STARTED)[calls], series, 0)


def match(trace: MpiTrace) -> Matches:
    records = trace.records
    sends, send, receive = match_messages(trace)
    probe, probed_send = match_probes(trace, send, receive)
    calls = of_roles(trace, COLLECTIVES)
    calls = calls[records["communicator"][calls] != SELF_COMMUNICATOR]
    series = series_of(trace, calls)
    calls, series = calls[series >= 0], series[series >= 0]
    communicator = records["communicator"][calls]
    order, _, number = ordinals([communicator, series, trace.rank[calls]])
    place = np.empty(len(calls), np.int64)
    place[order] = number
    order, group, _ = ordinals([communicator, series, place])
    return Matches(sends, send, receive, probe, probed_send, calls[order], group)
