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
from quarry.recording import record_program

COMMAND = Path(sys.executable).with_name("quarry")


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
    with pytest.raises(quarry.OutOfMemory, match="recorder: ring: no memory for 10983.* bytes"):
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


def record(tmp_path, program, *options):
    script = tmp_path / "program.py"
    script.write_text(program)
    return subprocess.run(
        [COMMAND, "record", *options, "-o", tmp_path / "out", "--", sys.executable, script, "-x"],
        capture_output=True,
        text=True,
        check=False,
    )


PROGRAM = """
import sys, quarry
pool = quarry.Pool(name="weights")
address = pool.allocate(5000)
pool.deallocate(address)
print("options", sys.argv[1:])
sys.exit(7)
"""


def test_record_runs_a_program_and_passes_its_status_on(tmp_path):
    done = record(tmp_path, PROGRAM)
    assert done.returncode == 7
    assert done.stdout == "options ['-x']\n"
    assert f"{tmp_path / 'out'}: 3 events, peak 4.88 KiB in use" in done.stderr
    trace = quarry.read_trace(tmp_path / "out")
    assert kinds_of(trace) == [Kind.RESERVE, Kind.ALLOCATE, Kind.DEALLOCATE]
    done = record(tmp_path, PROGRAM, "--json")  # replaces the file
    values = json.loads(done.stdout.splitlines()[-1])
    assert values["exit_status"] == 7
    assert [each["events"] for each in values["traces"]] == [3]


def test_each_process_of_a_program_has_a_trace_of_its_own(tmp_path):
    program = """
import os, subprocess, sys, quarry
pool = quarry.Pool()
pool.allocate(100)
child = "import quarry; pool = quarry.Pool(); [pool.allocate(9) for _ in range(5)]"
subprocess.run([sys.executable, "-c", child], check=True)
if os.fork() == 0:
    quarry.Pool().allocate(200)
    sys.exit(0)
os.wait()
"""
    done = record(tmp_path, program, "--json")
    assert done.returncode == 0, done.stderr
    traces = json.loads(done.stdout)["traces"]
    assert sorted(each["peak_allocated"] for each in traces) == [45, 100, 200]
    assert traces[0]["trace"] == os.fspath(tmp_path / "out")


def test_a_child_that_multiprocessing_forks_completes_its_trace(tmp_path):
    program = """
import multiprocessing, quarry
def work():
    pool = quarry.Pool()
    pool.deallocate(pool.allocate(300))
process = multiprocessing.get_context("fork").Process(target=work)
quarry.Pool().allocate(100)
process.start()
process.join()
"""
    done = record(tmp_path, program, "--json")
    assert done.returncode == 0, done.stderr
    traces = json.loads(done.stdout)["traces"]
    assert [each["peak_allocated"] for each in traces] == [100, 300]


def test_pools_of_the_plugins_record_into_the_same_file(tmp_path):
    program = f"""
import sys
sys.path.insert(0, {os.fspath(Path(__file__).parent)!r})
import quarry.plugins
from plugins.host_pools import make_pool
from quarry import _core
quarry.plugins.join_command()
quarry.plugins.join_command()
quarry.Pool(name="fields").allocate(100)
quarry.plugins.start_recording({os.fspath(tmp_path / "plugins")!r})
address = _core.plugin_allocate(_core.Framework.CUPY, 200, make_pool())
_core.plugin_deallocate(_core.Framework.CUPY, address, 20)
quarry.Pool(name="fields").allocate(300)
"""
    done = record(tmp_path, program, "--call-sites")
    assert done.returncode == 0, done.stderr
    trace, plugin_trace = (
        quarry.read_trace(tmp_path / "out"),
        quarry.read_trace(tmp_path / "plugins"),
    )
    allocations = trace.kind == Kind.ALLOCATE
    names = [trace.allocators[number] for number in trace.allocator[allocations]]
    assert names == ["fields", "cupy", "fields"]
    lines = [trace.call_sites[number] for number in trace.call_site[allocations]]
    script = tmp_path / "program.py"
    assert lines == [f"{script}:{line} <module>" for line in (9, 11, 13)]
    assert kinds_of(plugin_trace) == [Kind.RESERVE, Kind.ALLOCATE, Kind.DEALLOCATE]
    assert set(plugin_trace.address[1:]) == {trace.address[allocations][1]}


def test_record_tells_that_nothing_was_recorded(tmp_path):
    done = record(tmp_path, "print('no pools')")
    assert done.returncode == 0 and "recorded nothing" in done.stderr
    assert not (tmp_path / "out").exists()


def test_record_tells_which_signal_ended_the_program(tmp_path):
    assert record(tmp_path, "import os; os.kill(os.getpid(), 15)").returncode == 128 + 15


def test_record_refuses_a_program_that_cannot_run(tmp_path):
    done = subprocess.run(
        [COMMAND, "record", "-o", tmp_path / "out", "--", tmp_path / "missing"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2 and "missing" in done.stderr.replace("\n", "")


def test_record_never_replaces_a_file_of_the_command_or_what_is_no_file(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("print('ran')\n")
    link = tmp_path / "link"
    link.symlink_to(program)
    for path in (program, link):
        with pytest.raises(OSError, match="record to another name"):
            record_program([sys.executable, str(program)], path)
    assert program.read_text() == "print('ran')\n"


def test_record_keeps_an_older_file_if_the_program_records_nothing(tmp_path):
    path = tmp_path / "kept"
    path.write_text("older")
    assert record_program([sys.executable, "-c", "pass"], path).files == []
    assert path.read_text() == "older"
    assert os.listdir(tmp_path) == ["kept"]
