# SPDX-License-Identifier: Apache-2.0
"""Long calls let other Python threads run, and can be interrupted."""

import _thread
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import quarry
from quarry import _core
from quarry.traces import record_bytes

NO_SWITCH = 10_000.0  # seconds after which a thread must pass Python's lock on: never, in a test


@pytest.fixture(scope="module")
def long_trace(trace):
    return quarry.Trace(np.tile(trace.events, 20), call_sites=trace.call_sites)


@pytest.fixture(scope="module")
def long_file(long_trace, tmp_path_factory):
    path = tmp_path_factory.mktemp("traces") / "long.quarry"
    long_trace.write(path)
    return path


class Counter(threading.Thread):
    """Counts while it has Python's lock, and passes the lock on after each step."""

    def __init__(self):
        super().__init__(daemon=True)
        self.count = 0
        self.ends = False

    def run(self):
        while not self.ends:
            self.count += 1
            time.sleep(0)


def lets_others_run(call, attempts):
    """Whether a thread that waits for Python's lock gets it during the call, in one attempt."""
    interval = sys.getswitchinterval()
    counter = Counter()
    counter.start()
    while counter.count == 0:
        time.sleep(0)
    sys.setswitchinterval(NO_SWITCH)
    try:
        for _ in range(attempts):
            before = counter.count
            call()
            if counter.count != before:
                return True
            time.sleep(0)
        return False
    finally:
        sys.setswitchinterval(interval)
        counter.ends = True
        counter.join()


def test_a_call_that_keeps_pythons_lock_is_told_apart():
    assert not lets_others_run(lambda: sum(range(100_000)), attempts=20)


PLAN = {"alignment": 256, "finds_period": False, "max_steps": 1000, "seed": 1}
CALLS = {
    "read": lambda data, path, out: _core.read_trace(path),
    "read_batches": lambda data, path, out: _core.BatchReader(path, "all").next(10**9, 0, 0, 0, 0),
    "write": lambda data, path, out: data.write(out),
    "convert": lambda data, path, out: _core.convert(path, out, "rmm"),
    "replay of events": lambda data, path, out: quarry.replay(data),
    "replay of a file": lambda data, path, out: quarry.replay(path),
    "tune of events": lambda data, path, out: quarry.tune(data, candidates="2022"),
    "tune of a file": lambda data, path, out: quarry.tune(path, candidates="2022"),
    "separate events": lambda data, path, out: quarry.separate(data),
    "separate a file": lambda data, path, out: quarry.separate(path),
    "learn from events": lambda data, path, out: quarry.learn_routes(data, key="size"),
    "learn from a file": lambda data, path, out: quarry.learn_routes(path, key="size"),
    "plan of events": lambda data, path, out: _core.plan_events(record_bytes(data.events), **PLAN),
    "plan of a file": lambda data, path, out: _core.plan_file(path, "", **PLAN),
}


@pytest.mark.parametrize("name", CALLS)
def test_long_calls_let_other_threads_run(name, long_trace, long_file, tmp_path):
    def call():
        CALLS[name](long_trace, str(long_file), str(tmp_path / "out"))

    assert lets_others_run(call, attempts=200)


def interrupt_when_called(count):
    """A progress function that interrupts the main thread from another thread."""
    calls = []

    def progress(_):
        calls.append(None)
        if len(calls) == count:
            thread = threading.Thread(target=_thread.interrupt_main)
            thread.start()
            thread.join()

    return progress


@pytest.mark.parametrize("name", ["read", "convert", "replay", "tune", "plan"])
def test_control_c_ends_a_long_call(name, long_trace, long_file, tmp_path):
    stop = interrupt_when_called(1)
    calls = {
        "read": lambda: quarry.read_trace(long_file, progress=stop),
        "convert": lambda: quarry.convert(long_file, tmp_path / "out", progress=stop),
        "replay": lambda: quarry.replay(long_trace, progress=stop),
        "tune": lambda: quarry.tune(long_file, candidates="published", progress=stop),
        "plan": lambda: quarry.make_plan(long_file, progress=stop),
    }
    with pytest.raises(KeyboardInterrupt):
        calls[name]()
    assert quarry.replay(long_file).events == len(long_trace)


def test_control_c_ends_a_call_without_a_progress_function():
    random = np.random.default_rng(3)
    count = 3000
    slots = random.permutation(count)
    hard = quarry.make_trace(
        {
            "kind": np.repeat([0, 1], count),
            "address": np.concatenate([1 + np.arange(count), 1 + slots]) << 30,
            "size": np.tile(random.integers(1, 1 << 20, count), 2),
        }
    )
    gate = threading.Event()

    def interrupt():
        gate.wait()
        _thread.interrupt_main()

    threading.Thread(target=interrupt, daemon=True).start()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(NO_SWITCH)  # so the thread runs when the call releases Python's lock
    try:
        gate.set()
        with pytest.raises(KeyboardInterrupt):
            quarry.make_plan(hard, max_steps=10**15)  # more steps than a machine does in a year
    finally:
        sys.setswitchinterval(interval)


DAEMONS = """
import sys, threading, time
import quarry

path = sys.argv[1]
quarry.make_trace({"kind": [0, 1] * 5000, "address": [4096] * 10_000}).write(path)
pool = quarry.Pool(recorder=quarry.Recorder(ring="1MiB", call_sites=True))

def allocate():
    pool.deallocate(pool.allocate(100))

def replay():  # Python code runs during the call, and loses Python's lock there
    quarry.replay(path, progress=lambda _: time.sleep(0))

def repeat(work):
    while True:
        work()
        has_worked.release()

has_worked = threading.Semaphore(0)
for work in [allocate, replay] * 3:
    threading.Thread(target=repeat, args=(work,), daemon=True).start()
for _ in range(100):
    has_worked.acquire()
print("ends")
"""


@pytest.mark.parametrize("number", range(3))  # where a thread meets the end of Python varies
def test_daemon_threads_in_calls_do_not_disturb_the_end_of_python(tmp_path, number):
    done = subprocess.run(
        [sys.executable, "-c", DAEMONS, tmp_path / "trace"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr  # whole; pytest shortens a text that it compares
    assert (done.stdout, done.stderr) == ("ends\n", "")
