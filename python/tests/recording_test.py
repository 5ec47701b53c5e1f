# SPDX-License-Identifier: Apache-2.0
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import quarry
from quarry import Kind


def kinds_of(trace):
    return [Kind(kind) for kind in trace.kind]


def test_a_recorded_pool_writes_its_calls(tmp_path):
    path = tmp_path / "pool.quarry"
    with quarry.Recorder(path) as recorder:
        pool = quarry.Pool(name="fields", first_block="1MiB", max_bytes="1MiB", recorder=recorder)
        recorder.phase("set-up")
        address = pool.allocate(1000)
        with pytest.raises(MemoryError):
            pool.allocate("2MiB")
        assert pool.deallocate(address)
        assert not pool.deallocate(address)  # a trace does not have invalid frees
    trace = quarry.read_trace(path)
    assert kinds_of(trace) == [
        Kind.PHASE,
        Kind.RESERVE,
        Kind.ALLOCATE,
        Kind.FAIL,
        Kind.DEALLOCATE,
    ]
    assert trace.call_sites[trace.call_site[0]] == "set-up"
    assert {trace.allocators[number] for number in trace.allocator[1:]} == {"fields"}
    assert trace.address[2] == trace.address[4] == address
    assert (trace.size[2], trace.size[3], trace.size[4]) == (1000, 2 << 20, 1000)
    assert trace.granted[2] >= 1000 and trace.size[1] == 1 << 20
    assert pool.counts().invalid_frees == 1
    assert recorder.lost == 0


def test_a_replay_of_a_recording_agrees_with_the_pool(tmp_path):
    recorder = quarry.Recorder(tmp_path / "trace")
    pool = quarry.Pool(recorder=recorder)
    random = np.random.default_rng(5)
    live = []
    for _ in range(3000):
        if live and random.random() < 0.5:
            assert pool.deallocate(live.pop(random.integers(len(live))))
        else:
            live.append(pool.allocate(int(2 ** random.uniform(0, 16))))
    recorder.close()
    counts, result = pool.counts(), quarry.replay(tmp_path / "trace")
    assert result.pool.peak_allocated == counts.peak_allocated
    assert result.pool.allocations == counts.allocations
    assert result.recorded_peak_reserved == counts.peak_reserved
    assert result.unknown_frees == result.repeated_addresses == 0


def test_a_ring_keeps_the_last_events(tmp_path):
    recorder = quarry.Recorder(ring="56KiB")
    pool = quarry.Pool(recorder=recorder)
    for size in range(1, 4001):
        pool.deallocate(pool.allocate(size))
    recorder.save(tmp_path / "last")
    trace = quarry.read_trace(tmp_path / "last")
    assert len(trace) == 1024 and trace.size[-1] == 4000
    with pytest.raises(quarry.BadState, match="save needs a ring"):
        quarry.Recorder(tmp_path / "file").save(tmp_path / "copy")


def test_threads_share_a_recorder(tmp_path):
    with quarry.Recorder(tmp_path / "trace") as recorder:
        pools = [quarry.Pool(name=f"pool {number}", recorder=recorder) for number in range(2)]

        def work(pool):
            for size in range(1, 1000):
                assert pool.deallocate(pool.allocate(size))

        threads = [threading.Thread(target=work, args=(pools[i % 2],)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    trace = quarry.read_trace(tmp_path / "trace")
    assert (trace.kind == Kind.ALLOCATE).sum() == 4 * 999
    assert len(set(trace.thread)) == 4
    assert quarry.replay(trace).repeated_addresses == 0


def test_call_sites_are_the_lines_that_allocate(tmp_path):
    recorders = [
        quarry.Recorder(tmp_path / str(number), call_sites=number == 0) for number in range(2)
    ]
    pools = [quarry.Pool(recorder=recorder, max_bytes="1MiB") for recorder in recorders]
    this_file = Path(__file__)

    def work(pool):
        for _ in range(3):
            pool.deallocate(pool.allocate(100))
            pool.array(10)
        with pytest.raises(MemoryError):
            pool.allocate("2MiB")

    for pool, recorder in zip(pools, recorders, strict=True):
        work(pool)
        recorder.close()
    trace, other = (quarry.read_trace(tmp_path / str(number)) for number in range(2))
    first = work.__code__.co_firstlineno
    lines = [trace.call_sites[number] for number in trace.call_site[trace.kind == Kind.ALLOCATE]]
    assert lines == [f"{this_file}:{first + 2} work", f"{this_file}:{first + 3} work"] * 3
    (failed,) = trace.call_site[trace.kind == Kind.FAIL]
    assert trace.call_sites[failed] == f"{this_file}:{first + 5} work"
    assert not trace.call_site[trace.kind == Kind.DEALLOCATE].any()
    assert not other.call_site.any()


def test_pools_and_their_recorder_may_go_in_any_order(tmp_path):
    recorder = quarry.Recorder(tmp_path / "trace", call_sites=True)
    first, second = (quarry.Pool(name=name, recorder=recorder) for name in ("first", "second"))
    address = first.allocate(100)
    assert not second.deallocate(address)  # the trace shows frees of the pool's own memory only
    other = second.allocate(200)
    del recorder, first  # with an allocation in use; the pools keep the recorder
    assert second.deallocate(other)
    del second
    trace = quarry.read_trace(tmp_path / "trace")
    names = [trace.allocators[number] for number in trace.allocator]
    assert list(zip(kinds_of(trace), names, strict=True)) == [
        (Kind.RESERVE, "first"),
        (Kind.ALLOCATE, "first"),
        (Kind.RESERVE, "second"),
        (Kind.ALLOCATE, "second"),
        (Kind.UNRESERVE, "first"),
        (Kind.DEALLOCATE, "second"),
        (Kind.UNRESERVE, "second"),
    ]


def test_bad_options_of_a_recorder_are_refused(tmp_path):
    for options in ({}, {"path": tmp_path / "trace", "ring": "1MiB"}, {"ring": 0}):
        with pytest.raises(quarry.BadArgument):
            quarry.Recorder(**options)
    with pytest.raises(quarry.BadArgument, match="the path is empty"):
        quarry.Recorder("")
    with pytest.raises(quarry.OutOfMemory, match="recorder: ring: no memory for 10984.* bytes"):
        quarry.Recorder(ring="999TiB")
    with pytest.raises(quarry.ResourceFailed, match="no-folder"):
        quarry.Recorder(tmp_path / "no-folder" / "trace")


def test_a_file_has_one_recorder_at_a_time(tmp_path):
    path = tmp_path / "trace"
    with quarry.Recorder(path) as recorder:
        pool = quarry.Pool(recorder=recorder)
        pool.allocate(100)
        for make in (quarry.Recorder, quarry.Recorder(ring="1MiB").save):
            with pytest.raises(quarry.ResourceFailed, match="trace: .* another recorder writes it"):
                make(path)
    assert len(quarry.read_trace(path)) == 2
    quarry.Recorder(path).close()
