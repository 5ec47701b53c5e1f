# SPDX-License-Identifier: Apache-2.0
"""Recordings of the plug-ins' pools. Needs no GPU: the pools lie in host memory."""

import inspect
import os
import threading

import numpy as np
import pytest
from plugins.host_pools import TorchFunctions, make_pool

import quarry
import quarry.plugins
from quarry import Kind, _core
from quarry._core import Framework

CUPY, RMM = Framework.CUPY, Framework.RMM


@pytest.fixture
def command(tmp_path):
    """A recorder in the place of the one of `quarry record`."""
    recorder = quarry.Recorder(tmp_path / "command.quarry", call_sites=True)
    _core.plugin_join_recording(recorder)
    yield recorder
    _core.plugin_forget_recordings()


def line_here() -> str:
    """The label of the caller's line."""
    frame = inspect.currentframe().f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_name}"


def events_of(trace, kind):
    return np.flatnonzero(trace.kind == kind)


def site_of(trace, event):
    return trace.call_sites[trace.call_site[event]]


def test_two_recordings_of_two_pools_have_the_same_events(tmp_path, command):
    path = tmp_path / "program.quarry"
    quarry.plugins.start_recording(path)
    devices = [make_pool(), make_pool()]
    stream = 0x5000
    live = []
    for size in range(100, 200):
        user, device = (CUPY, RMM)[size % 2], devices[size % 2]
        live.append((user, _core.plugin_allocate(user, size, device, stream), device))
    for user, address, device in live[::2]:
        _core.plugin_deallocate(user, address, device, stream)
    assert quarry.plugins.stop_recording()
    assert not quarry.plugins.stop_recording()
    for user, address, device in live[1::2]:
        _core.plugin_deallocate(user, address, device, stream)
    command.close()
    program_trace, command_trace = (
        quarry.read_trace(path),
        quarry.read_trace(tmp_path / "command.quarry"),
    )
    assert len(program_trace) == 2 + 100 + 50 and len(command_trace) == 2 + 100 + 100
    for column in ("kind", "address", "size", "granted"):
        assert np.array_equal(
            program_trace.columns()[column], command_trace.columns()[column][: len(program_trace)]
        )
    for trace in (program_trace, command_trace):
        names = [trace.allocators[number] for number in trace.allocator]
        assert set(names) == {"blocks of the pool", "cupy", "rmm"}
        allocations = events_of(trace, Kind.ALLOCATE)
        assert list(trace.size[allocations]) == list(range(100, 200))
        assert [names[event] for event in allocations] == ["cupy", "rmm"] * 50
        assert set(trace.stream[allocations]) == {1}
    assert not program_trace.call_site.any()  # only the command asked for call sites
    assert quarry.replay(tmp_path / "command.quarry").unknown_frees == 0


def test_an_event_has_the_granted_size_and_a_failure_the_free_bytes(tmp_path, command):
    device = make_pool()
    addresses = [_core.plugin_allocate(CUPY, size, device) for size in (1, 1000, 5000)]
    with pytest.raises(MemoryError):
        _core.plugin_allocate(CUPY, 9 << 20, device)
    command.close()
    trace = quarry.read_trace(tmp_path / "command.quarry")
    granted = trace.granted[events_of(trace, Kind.ALLOCATE)]
    assert (granted >= [1, 1000, 5000]).all() and (granted % 256 == 0).all()
    (failed,) = events_of(trace, Kind.FAIL)
    assert trace.granted[failed] == (1 << 20) - granted.sum()
    assert trace.size[failed] == 9 << 20
    for address in addresses:
        _core.plugin_deallocate(CUPY, address, device)


def test_an_allocation_has_the_line_of_its_caller(tmp_path, command):
    device = make_pool()
    lines = []

    def allocate():
        return _core.plugin_allocate(CUPY, 64, device), line_here()

    for _ in range(3):
        lines.append((_core.plugin_allocate(CUPY, 64, device), line_here())[1])
        lines.append(allocate()[1])
    lines.append(allocate()[1])
    command.close()
    trace = quarry.read_trace(tmp_path / "command.quarry")
    assert [site_of(trace, event) for event in events_of(trace, Kind.ALLOCATE)] == lines
    assert len(trace.call_sites) == 1 + 2  # each place has one name


@pytest.mark.parametrize("with_lock", [False, True])
def test_pytorch_s_calls_have_the_line_of_the_program(tmp_path, command, with_lock):
    torch, device = TorchFunctions(with_lock=with_lock), make_pool()

    def work():
        address = torch.allocate(100, device, None)
        torch.deallocate(address, 100, device, None)

    thread = threading.Thread(target=work)
    work()
    thread.start()
    thread.join()
    torch.deallocate(torch.allocate_segment(100, device, None), 100, device, None)
    command.close()
    trace = quarry.read_trace(tmp_path / "command.quarry")
    *tensors, segment = [site_of(trace, event) for event in events_of(trace, Kind.ALLOCATE)]
    assert len(tensors) == 2 and len(set(tensors)) == 1 and tensors[0].endswith(" work")
    assert segment == ""  # PyTorch holds the lock of its caching allocator


def test_threads_record_while_recordings_start_and_stop(tmp_path, command):
    devices = [make_pool(), make_pool()]
    functions = [TorchFunctions(with_lock=with_lock) for with_lock in (False, True)]
    is_done = threading.Event()
    problems = []

    def work(number):
        torch, device = functions[number % 2], devices[number // 2]
        live = []
        size = 1
        while not is_done.is_set():
            size = size * 7 % 4099
            live.append(torch.allocate(size, device, None))
            if len(live) > 20:
                torch.deallocate(live.pop(size % 20), size, device, None)
        for address in live:
            torch.deallocate(address, 0, device, None)

    def watched(number):
        try:
            work(number)
        except BaseException as raised:
            problems.append(raised)

    threads = [threading.Thread(target=watched, args=(i,), daemon=True) for i in range(4)]
    for thread in threads:
        thread.start()
    paths = [tmp_path / f"{number}.quarry" for number in range(12)]
    for number, path in enumerate(paths):
        quarry.plugins.start_recording(path, call_sites=number % 2 == 0)
        wanted = quarry.plugins.counts(devices[0]).allocations + 200
        while quarry.plugins.counts(devices[0]).allocations < wanted:
            pass
        assert quarry.plugins.stop_recording()
        assert not quarry.plugins.stop_recording()
    is_done.set()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads) and not problems
    command.close()
    assert command.lost == 0
    for device in devices:
        assert quarry.plugins.audit(device) == []
        assert quarry.plugins.counts(device).allocations_in_use == 0
    for path in [*paths, tmp_path / "command.quarry"]:
        trace = quarry.read_trace(path)
        assert len(trace) > 0
        result = quarry.replay(path)
        assert result.repeated_addresses == 0
        assert result.unknown_frees == 0 or path in paths
    command_trace = quarry.read_trace(tmp_path / "command.quarry")
    frees = events_of(command_trace, Kind.DEALLOCATE)
    assert len(events_of(command_trace, Kind.ALLOCATE)) == len(frees)
    assert not command_trace.call_site[frees].any()
    assert command_trace.call_site[events_of(command_trace, Kind.ALLOCATE)].all()


def test_a_child_of_a_fork_records_into_a_file_of_its_own(tmp_path):
    device = make_pool()
    parent, child = tmp_path / "parent.quarry", tmp_path / "child.quarry"
    quarry.plugins.start_recording(parent)
    _core.plugin_allocate(CUPY, 111, device)
    number = os.fork()
    if number == 0:
        status = 1
        try:
            _core.plugin_allocate(CUPY, 222, device)  # is in no file
            assert not quarry.plugins.stop_recording()
            quarry.plugins.start_recording(child)
            _core.plugin_allocate(CUPY, 333, device)
            assert quarry.plugins.stop_recording()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(number, 0)[1] == 0
    _core.plugin_allocate(CUPY, 444, device)
    assert quarry.plugins.stop_recording()
    for path, sizes in ((parent, [111, 444]), (child, [333])):
        trace = quarry.read_trace(path)
        assert list(trace.size[events_of(trace, Kind.ALLOCATE)]) == sizes


def test_a_recording_of_call_sites_needs_a_file():
    with pytest.raises(quarry.BadArgument, match="also set record"):
        quarry.plugins.prepare("quarry.torch", None, True, {})


def test_memory_that_another_stream_uses_is_freed_when_it_can_be_reused(tmp_path):
    """PyTorch's `record_stream`. On the host, the work of streams is done when the pool looks."""
    device, torch = make_pool(), TorchFunctions(with_lock=True)
    quarry.plugins.start_recording(tmp_path / "used.quarry")
    shared = torch.allocate(1000, device, 0x5000)
    torch.record_stream(shared, 0x6000)
    torch.deallocate(shared, 1000, device, 0x5000)
    own = torch.allocate(500, device, 0x5000)  # looks
    torch.deallocate(own, 500, device, 0x5000)
    last = torch.allocate(700, device, 0x5000)
    torch.record_stream(last, 0x6000)
    torch.deallocate(last, 700, device, 0x5000)
    quarry.plugins.stop_recording()
    trace = quarry.read_trace(tmp_path / "used.quarry")
    memory = (trace.kind == Kind.ALLOCATE) | (trace.kind == Kind.DEALLOCATE)
    assert list(zip(trace.kind[memory], trace.size[memory], strict=True)) == [
        (Kind.ALLOCATE, 1000),
        (Kind.DEALLOCATE, 1000),
        (Kind.ALLOCATE, 500),
        (Kind.DEALLOCATE, 500),
        (Kind.ALLOCATE, 700),  # its free waits at the end
    ]
