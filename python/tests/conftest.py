# SPDX-License-Identifier: Apache-2.0
"""Traces that several tests use."""

from pathlib import Path

import numpy as np
import pytest

import quarry
from quarry import Kind

DATA = Path(__file__).resolve().parents[2] / "data"


def random_trace(seed, events=4000):
    """Allocations and frees of random sizes, some of which are never freed, in their own blocks."""
    random = np.random.default_rng(seed)
    rows, live, free = [], {}, list(range(200))
    for number in range(events):
        if free and (not live or random.random() < 0.55):
            slot = free.pop(random.integers(len(free)))
            size = int(2 ** random.uniform(0, 20))
            live[slot] = size
            rows.append((Kind.ALLOCATE, slot, size, number))
        else:
            slot = list(live)[random.integers(len(live))]
            rows.append((Kind.DEALLOCATE, slot, live.pop(slot), number))
            free.append(slot)
    kind, slot, size, number = (np.array(column) for column in zip(*rows, strict=True))
    return quarry.make_trace(
        {
            "kind": kind,
            "address": 0x7F0000000000 + slot * (1 << 21),
            "size": size,
            "granted": (size + 511) // 512 * 512,
            "time": number * 1000 + 5_000_000,
            "call_site": 1 + slot % 7,
        },
        call_sites=[""] + [f"model.py:{line} forward" for line in range(1, 8)],
    )


def layered_trace(steps=40):
    """In each step, temporary arrays come and go, and arrays that stay are made between them.

    Sizes do not tell them apart, because the temporary arrays grow; their call sites do. The call
    sites are as long as those of PyTorch.
    """
    rows, address = [], 1 << 32
    for step in range(steps):
        temporary = []
        for number in range(12):
            size = 1_280_000 + 32_000 * step if number % 2 else 9_600_000 + 640_000 * step
            rows.append((Kind.ALLOCATE, address, size, 1))
            temporary.append((address, size))
            address += 1 << 24
            if number % 3 == 0:
                rows.append((Kind.ALLOCATE, address, 1_280_000, 2))
                address += 1 << 24
        rows += [(Kind.DEALLOCATE, *each, 0) for each in temporary]
    kind, place, size, site = (np.array(column) for column in zip(*rows, strict=True))
    frames = " < ".join(f"package/module_{i}.py:{i} function_{i}" for i in range(20))
    return quarry.make_trace(
        {"kind": kind, "address": place, "size": size, "call_site": site},
        call_sites=["", f"{frames} < main.py:7 scratch", f"{frames} < main.py:9 weights"],
    )


@pytest.fixture(scope="session")
def trace():
    return random_trace(1)


@pytest.fixture(scope="session")
def plan(trace):
    """The whole search takes five seconds of a processor. No test needs its end."""
    return quarry.make_plan(trace, max_steps=20_000)


@pytest.fixture(scope="session")
def trace_file(trace, tmp_path_factory):
    path = tmp_path_factory.mktemp("traces") / "random.quarry"
    trace.write(path)
    return path


@pytest.fixture(scope="session")
def layered_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("traces") / "layered.quarry"
    layered_trace().write(path)
    return path


@pytest.fixture(scope="session")
def recording():
    """A recording of PyTorch from the repository; the wheel does not have it."""
    path = DATA / "gnn.pickle.gz"
    if not path.exists():
        pytest.skip("data/gnn.pickle.gz is not there")
    return path
