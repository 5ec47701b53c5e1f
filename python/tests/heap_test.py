# SPDX-License-Identifier: Apache-2.0
import pytest

import quarry


def test_a_heap_on_the_cpu_has_statistics():
    heap = quarry.Heap(1 << 24, backend="cpu", max_bytes=1 << 26)
    assert heap.backend == "cpu"
    stats = heap.stats()
    assert (stats.reserved, stats.allocated, stats.allocations_in_use) == (1 << 24, 0, 0)
    assert 0 <= stats.fragmentation <= 1
    assert heap.region_bytes >= 1 << 26
    assert heap.live_allocations() == []
    assert heap.first_fault() is None
    assert heap.audit() == []


def test_a_heap_grows_up_to_its_limit():
    heap = quarry.Heap(1 << 24, backend="cpu", max_bytes=1 << 25)
    heap.grow(1 << 25)
    assert heap.stats().reserved == 1 << 25
    with pytest.raises(quarry.BadArgument):
        heap.grow(1 << 26)
    assert heap.shrink(1 << 24) == 1 << 24


def test_bad_options_raise_value_error():
    with pytest.raises(ValueError, match="bytes is 0"):
        quarry.Heap(0)
    with pytest.raises(ValueError, match="no backend 'abacus'"):
        quarry.Heap(1 << 20, backend="abacus")
