# SPDX-License-Identifier: Apache-2.0
"""The free chunks of the recorded allocator, against a table of bytes."""

import numpy as np
import pytest

import quarry
from quarry import Kind
from quarry._core import FreeSpace
from quarry.traces import record_bytes

BYTES = 96  # of an address space of the naive model


def counts_of(trace, spaces=(0,)):
    found = FreeSpace().add(record_bytes(trace.events), list(spaces)).view(np.uint64)
    return found.reshape(-1, 2).tolist()  # all free bytes, and the largest chunk


def made(rows, **names):
    kind, address, size = (np.array(column) for column in zip(*rows, strict=True))
    return quarry.make_trace({"kind": kind, "address": address, "size": size}, **names)


def test_free_chunks_join_inside_a_block_and_not_across_blocks():
    trace = made(
        [
            (Kind.RESERVE, 1000, 100),
            (Kind.RESERVE, 1100, 50),  # beside the first one
            (Kind.ALLOCATE, 1000, 30),
            (Kind.ALLOCATE, 1030, 20),
            (Kind.ALLOCATE, 1090, 20),  # in both blocks, as in expandable segments
            (Kind.DEALLOCATE, 1000, 30),
            (Kind.DEALLOCATE, 1030, 20),
            (Kind.DEALLOCATE, 1090, 20),
            (Kind.UNRESERVE, 1100, 50),
        ]
    )
    assert counts_of(trace) == [
        [100, 100], [150, 100], [120, 70], [100, 50], [80, 40], [110, 40], [130, 90], [150, 100],
        [100, 100],
    ]  # fmt: skip


def test_a_block_that_is_reserved_late_has_no_room_where_allocations_are():
    trace = made(
        [
            (Kind.ALLOCATE, 40, 10),
            (Kind.DEALLOCATE, 7, 0),  # of an unknown address
            (Kind.RESERVE, 0, 100),
            (Kind.ALLOCATE, 40, 20),  # the free of the first one is missing
            (Kind.DEALLOCATE, 40, 20),
            (Kind.UNRESERVE, 0, 0),
        ]
    )
    assert counts_of(trace) == [[0, 0], [0, 0], [90, 50], [80, 40], [100, 100], [0, 0]]


def test_granted_bytes_are_in_use():
    trace = made([(Kind.RESERVE, 0, 100), (Kind.ALLOCATE, 1, 10)])
    trace.events["granted"][1] = 40
    assert counts_of(trace)[1] == [60, 59]


def test_devices_have_chunks_of_their_own():
    trace = made([(Kind.RESERVE, 64, 100), (Kind.RESERVE, 64, 70), (Kind.ALLOCATE, 64, 60)])
    trace.events["allocator"] = [1, 2, 2]
    assert counts_of(trace, (0, 0, 1)) == [[100, 100], [170, 100], [110, 100]]
    trace.events["allocator"][2] = 99  # an unknown number belongs to the first address space
    assert counts_of(trace, (0, 0, 1))[2] == [110, 70]


def random_events(random):
    """Events as a real allocator makes them, and others. Allocations do not overlap."""
    rows, used = [], np.zeros(BYTES, bool)
    live = {}
    for _ in range(120):
        kind = random.choice([Kind.ALLOCATE, Kind.DEALLOCATE, Kind.RESERVE, Kind.UNRESERVE])
        base = int(random.integers(BYTES))
        size = int(random.integers(1, BYTES - base + 1))
        if kind == Kind.ALLOCATE:
            size = min(size, 12)
            if used[base : base + size].any():
                continue
            live[base] = size
            used[base : base + size] = True
        elif kind == Kind.DEALLOCATE:
            if not live:
                continue
            base = list(live)[random.integers(len(live))]
            size = live.pop(base)
            used[base : base + size] = False
        rows.append((kind, base, size))
    return rows


def naive_counts(rows):
    """By a table that has for each byte the number of its block, or -1, and whether it is used."""
    block, used, found = np.full(BYTES, -1), np.zeros(BYTES, bool), []
    for number, (kind, base, size) in enumerate(rows):
        part = slice(base, base + size)
        if kind in (Kind.ALLOCATE, Kind.DEALLOCATE):
            used[part] = kind == Kind.ALLOCATE
        else:
            # What is left of a block on both sides are two blocks.
            behind = block[base + size :]
            if base and len(behind) and behind[0] >= 0 and behind[0] == block[base - 1]:
                behind[behind == behind[0]] = 1000 + number
            block[part] = number if kind == Kind.RESERVE else -1
        free = np.where(used, -1, block)
        borders = np.flatnonzero(np.diff(free, prepend=-2, append=-2))
        lengths = [
            high - low
            for low, high in zip(borders[:-1], borders[1:], strict=True)
            if free[low] >= 0
        ]
        found.append([sum(lengths), max(lengths, default=0)])
    return found


@pytest.mark.parametrize("seed", range(60))
def test_random_events_have_the_chunks_of_a_table_of_bytes(seed):
    rows = random_events(np.random.default_rng(seed))
    shifted = [(kind, base + 4096, size) for kind, base, size in rows]
    assert counts_of(made(shifted)) == naive_counts(rows)
