# SPDX-License-Identifier: Apache-2.0
"""Pools that serve from a routing table or a plan."""

import random

import numpy as np
import pytest

import quarry
from quarry import Kind, Route, RoutingTable

TABLE = RoutingTable([Route(1, max_size=1000), Route(2, min_size=1001, call_site="solver")])


def planned_trace():
    return quarry.make_trace(
        {
            "kind": np.tile([0, 0, 1, 1], 50),
            "address": np.tile([4096, 8192, 4096, 8192], 50),
            "size": np.tile([1000, 5000, 1000, 5000], 50),
        }
    )


def make_pools():
    return [
        quarry.RoutedPool(TABLE, first_block="1MiB"),
        quarry.PlannedPool(quarry.make_plan(planned_trace()), first_block="1MiB"),
    ]


def test_a_table_sends_an_allocation_to_the_first_route_that_matches():
    assert (len(TABLE), TABLE.pools) == (2, 3)
    assert [TABLE.pool_for(1000), TABLE.pool_for(1001)] == [1, 0]
    assert TABLE.pool_for(5000, "solver") == 2
    assert TABLE.routes[0].max_size == 1000 and TABLE.routes[1].max_size is None
    assert RoutingTable().pools == 1


def test_a_table_is_saved_and_loaded(tmp_path):
    TABLE.save(tmp_path / "routes")
    assert RoutingTable.load(tmp_path / "routes") == TABLE
    assert RoutingTable.load(str(tmp_path / "routes")).routes == TABLE.routes
    assert TABLE != RoutingTable([Route(1)])
    pool = quarry.RoutedPool(tmp_path / "routes")
    assert pool.table == TABLE
    with pytest.raises(quarry.ResourceFailed, match="missing"):
        quarry.RoutedPool(tmp_path / "missing")


def test_bad_routes_are_refused():
    for routes, message in (
        ([Route(16)], "pool 16 is not below 16"),
        ([Route(0, min_size=2, max_size=1)], "exceeds the largest"),
        ([Route(0, call_site="a\nb")], "line break"),
    ):
        with pytest.raises(quarry.BadArgument, match=message):
            RoutingTable(routes)


def test_each_route_has_a_pool_of_its_own():
    pool = quarry.RoutedPool(TABLE, first_block="1MiB", next_block="1MiB", name="routed")
    small, large, solver = pool.allocate(100), pool.allocate("10KiB"), pool.allocate(2000, "solver")
    assert [pool.counts_of(i).allocated for i in range(3)] == [10 << 10, 100, 2000]
    assert pool.counts().allocated == 100 + (10 << 10) + 2000
    assert [pool.size_of(each) for each in (small, large, solver)] == [100, 10 << 10, 2000]
    assert quarry.registry.find(small + 5).base == small
    with pytest.raises(quarry.BadArgument, match="pool 3 is not below 3"):
        pool.counts_of(3)


def test_a_plan_serves_its_requests_from_one_block():
    plan = quarry.make_plan(planned_trace())
    pool = quarry.PlannedPool(plan)
    for _ in range(10):
        first, second = pool.allocate(1000), pool.allocate(5000)
        assert 0 <= first - second < plan.bytes or 0 <= second - first < plan.bytes
        assert pool.deallocate(first) and pool.deallocate(second)
    counts = pool.counts()
    assert (counts.planned, counts.unplanned, counts.reserved) == (20, 0, plan.bytes)
    other = pool.allocate("1MiB")
    assert pool.counts().unplanned == 1 and pool.size_of(other) == 1 << 20
    assert pool.counts().fallback.allocated == 1 << 20
    pool.restart()
    assert pool.allocate(1000) and pool.counts().planned == 21


def test_a_planned_pool_loads_a_saved_plan(tmp_path):
    plan = quarry.make_plan(planned_trace())
    plan.save(tmp_path / "plan")
    assert quarry.PlannedPool(tmp_path / "plan").counts().reserved == plan.bytes
    with pytest.raises(quarry.OutOfMemory, match="the plan exceeds max_bytes"):
        quarry.PlannedPool(plan, max_bytes=16)
    (tmp_path / "plan").write_text("hello")
    with pytest.raises(quarry.BadPlan, match="plan"):
        quarry.PlannedPool(tmp_path / "plan")


@pytest.mark.parametrize("index", [0, 1])
def test_the_pools_behave_as_a_dictionary_of_allocations(index):
    pool = make_pools()[index]
    choose, live = random.Random(5), {}
    for _ in range(3000):
        if live and choose.random() < 0.48:
            address = choose.choice(list(live))
            assert pool.size_of(address) == live.pop(address)
            assert pool.deallocate(address)
        else:
            size = choose.choice([1000, 5000, choose.randrange(1, 9000)])
            address = pool.allocate(size)
            assert all(
                address + size <= other or other + bytes_ <= address
                for other, bytes_ in live.items()
            )
            live[address] = size
    counts = pool.counts()
    assert counts.allocated == sum(live.values())
    assert counts.allocations_in_use == len(live)
    assert pool.audit() == []


@pytest.mark.parametrize("index", [0, 1])
def test_a_double_free_is_refused_and_counted(index):
    pool = make_pools()[index]
    address = pool.allocate(1000)
    assert pool.deallocate(address)
    assert not pool.deallocate(address) and not pool.deallocate(12345)
    assert pool.size_of(address) is None
    assert pool.counts().invalid_frees == 2
    pool.release()


@pytest.mark.parametrize("index", [0, 1])
def test_an_array_frees_its_memory(index):
    pool = make_pools()[index]
    array = pool.array(250, np.float32)
    array[:] = 3
    assert pool.counts().allocated == 1000 and pool.location == "host"
    del array
    assert pool.counts().allocated == 0


@pytest.mark.parametrize("index", [0, 1])
def test_a_recorder_gets_the_calls(index, tmp_path):
    with quarry.Recorder(tmp_path / "calls") as recorder:
        options = {"name": "served", "max_bytes": "2MiB", "first_block": "1MiB"}
        options["recorder"] = recorder
        plan = quarry.make_plan(planned_trace())
        served = (
            quarry.RoutedPool(TABLE, **options)
            if index == 0
            else quarry.PlannedPool(plan, **options)
        )
        address = served.allocate(1000)
        with pytest.raises(quarry.OutOfMemory):
            served.allocate("4MiB")
        assert served.deallocate(address) and not served.deallocate(address)
        if index == 0:
            served.deallocate(served.allocate(1500, "solver"))
    read = quarry.read_trace(tmp_path / "calls")
    kinds = read.kind[read.kind <= Kind.FAIL].tolist()
    assert kinds[:3] == [Kind.ALLOCATE, Kind.FAIL, Kind.DEALLOCATE]
    assert "served" in read.allocators and (read.kind == Kind.RESERVE).any()
    if index == 0:
        assert "solver" in [read.call_sites[i] for i in read.call_site]
