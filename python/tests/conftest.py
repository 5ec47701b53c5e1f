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


@pytest.fixture(scope="session")
def trace():
    return random_trace(1)


@pytest.fixture(scope="session")
def trace_file(trace, tmp_path_factory):
    path = tmp_path_factory.mktemp("traces") / "random.quarry"
    trace.write(path)
    return path


@pytest.fixture(scope="session")
def recording():
    """A recording of PyTorch from the repository; the wheel does not have it."""
    path = DATA / "gnn.pickle.gz"
    if not path.exists():
        pytest.skip("data/gnn.pickle.gz is not there")
    return path
