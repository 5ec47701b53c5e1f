# SPDX-License-Identifier: Apache-2.0
import ctypes
import random
import threading

import numpy as np
import pytest

import quarry

PLACEMENTS = list(quarry.PLACEMENTS)


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_an_allocation_is_host_memory_that_the_registry_finds(placement):
    pool = quarry.Pool("host", placement=placement, name="fields", first_block="1MiB")
    address = pool.allocate("10KiB")
    ctypes.memset(address, 7, 10 << 10)
    found = quarry.registry.find(address + 5000)
    assert (found.base, found.size, found.location) == (address, 10 << 10, "host")
    assert found.allocator == pool.id
    assert "fields" in [allocator.name for allocator in quarry.registry.allocators()]
    assert pool.size_of(address) == 10 << 10
    assert pool.label(address, "velocity")
    assert quarry.registry.label_of(address) == "velocity"
    assert "velocity" in quarry.registry.report(pool.id)
    assert pool.deallocate(address)
    assert quarry.registry.find(address) is None


def test_a_double_free_is_refused_and_counted():
    pool = quarry.Pool()
    address = pool.allocate(100)
    assert pool.deallocate(address)
    assert not pool.deallocate(address)
    assert not pool.deallocate(12345)
    assert pool.counts().invalid_frees == 2
    assert pool.audit() == []


def test_an_array_lies_in_the_pool_and_frees_its_memory():
    pool = quarry.Pool()
    array = pool.array((100, 20), np.float32)
    array[:] = 3
    found = quarry.registry.find(array.ctypes.data)
    assert (found.allocator, found.size) == (pool.id, 100 * 20 * 4)
    part = array[50:]
    del array
    assert part.sum() == 50 * 20 * 3
    assert pool.counts().allocations_in_use == 1
    del part
    assert pool.counts().allocations_in_use == 0
    del pool
    kept = quarry.Pool().array(10, np.int64)  # the array keeps its pool
    kept[:] = 7
    assert kept.tolist() == [7] * 10


def test_a_full_pool_raises_memory_error_with_the_numbers():
    pool = quarry.Pool(max_bytes="1MiB", first_block="1MiB")
    with pytest.raises(MemoryError, match="pool: no memory for 2097152 bytes") as caught:
        pool.allocate("2MiB")
    assert isinstance(caught.value, quarry.OutOfMemory)
    assert isinstance(caught.value, quarry.Error)
    assert (caught.value.resource, caught.value.requested) == ("pool", 2 << 20)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"resource": "tape"}, "no resource 'tape'"),
        ({"placement": "tetris"}, "no placement 'tetris'"),
        ({"alignment": 3}, "alignment is 3"),
        ({"heuristic": "sometimes"}, "sometimes"),
        ({"heuristic": "blocks:2+2024"}, "only a replay"),
        ({"max_bytes": "much"}, "is not a size"),
    ],
)
def test_bad_options_raise_value_error(options, message):
    with pytest.raises(ValueError, match=message) as caught:
        quarry.Pool(**options)
    assert isinstance(caught.value, quarry.BadArgument)


def test_counts_release_and_coalesce():
    pool = quarry.Pool(first_block="1MiB", next_block="1MiB", growth_percent=0)
    addresses = [pool.allocate("900KiB") for _ in range(3)]
    counts = pool.counts()
    assert (counts.allocations_in_use, counts.allocated) == (3, 3 * 900 << 10)
    assert counts.to_dict()["blocks_allocated"] == counts.blocks_allocated == 3
    assert "allocations_in_use=3" in repr(counts)
    for address in addresses:
        assert pool.deallocate(address)
    pool.coalesce(3 << 20)
    assert pool.counts().reserved >= 3 << 20
    pool.release()
    assert pool.counts().reserved == 0
    assert pool.counts().peak_allocated == 3 * 900 << 10


def test_a_heuristic_coalesces():
    pool = quarry.Pool(
        heuristic="blocks:2", first_block="1MiB", next_block="1MiB", growth_percent=0
    )
    for address in [pool.allocate("900KiB") for _ in range(4)]:
        pool.deallocate(address)
    assert pool.counts().coalesces > 0


def test_threads_share_a_pool():
    pool = quarry.Pool()

    def work(seed):
        choose = random.Random(seed)
        addresses = []
        for _ in range(2000):
            if addresses and choose.random() < 0.5:
                assert pool.deallocate(addresses.pop(choose.randrange(len(addresses))))
            else:
                addresses.append(pool.allocate(choose.randrange(1, 10_000)))
        for address in addresses:
            assert pool.deallocate(address)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert pool.counts().allocations_in_use == 0
    assert pool.audit() == []


@pytest.mark.parametrize("kind", ["device", "pinned", "managed"])
def test_cuda_memory_comes_from_the_gpu_or_raises_resource_failed(kind):
    from quarry import _core

    if _core.cuda_devices():
        pool = quarry.Pool(kind, first_block="1MiB")
        address = pool.allocate(1000)
        assert quarry.registry.find(address).location.startswith(kind)
        assert pool.deallocate(address)
    else:
        with pytest.raises(quarry.ResourceFailed):
            quarry.Pool(kind, first_block="1MiB").allocate(1000)
