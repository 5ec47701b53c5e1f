# SPDX-License-Identifier: Apache-2.0
"""`quarry record`: programs that it runs, and how they end."""

import fcntl
import json
import os
import pty
import signal
import subprocess
import sys
import termios
from pathlib import Path

import pytest

import quarry
from quarry import Kind
from quarry.recorded_program import record_program

COMMAND = Path(sys.executable).with_name("quarry")


def kinds_of(trace):
    return [Kind(kind) for kind in trace.kind]


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


WAITS = """
import signal, sys, time, quarry
pool = quarry.Pool()
pool.allocate(100)
signals = []
def count(number, _):
    signals.append(number)
for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
    signal.signal(number, count)
print("ready", flush=True)
while len(signals) < 3:  # `quarry record` may get them, on its threads, in any order
    time.sleep(0.01)
print(sorted(signals), flush=True)
"""


def start(tmp_path, program, **options):
    words = [COMMAND, "record", "-o", tmp_path / "out", "--", sys.executable, "-c", program]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True, **options)


def test_signals_reach_the_program_and_the_trace_is_completed(tmp_path):
    with start(tmp_path, WAITS, stderr=subprocess.PIPE, start_new_session=True) as running:
        assert running.stdout.readline() == "ready\n"
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            running.send_signal(number)
        received, messages = running.communicate(timeout=60)
    assert received == f"{[signal.SIGHUP.value, signal.SIGINT.value, signal.SIGTERM.value]}\n"
    assert running.returncode == 0 and "incomplete" not in messages
    assert len(quarry.read_trace(tmp_path / "out")) == 2


def test_a_signal_that_ends_the_program_gives_its_status(tmp_path):
    program = """
import time, quarry
quarry.Pool().allocate(100)
print("ready", flush=True)
time.sleep(60)
"""
    with start(tmp_path, program, stderr=subprocess.PIPE) as running:
        assert running.stdout.readline() == "ready\n"
        running.terminate()
        _, messages = running.communicate(timeout=50)
    assert running.returncode == 128 + signal.SIGTERM
    assert f"incomplete: {tmp_path / 'out'}: the last events are missing: process " in messages
    assert "ended by signal 15 (Terminated); only a normal exit writes them" in messages


def test_control_c_of_a_terminal_reaches_the_program_once(tmp_path):
    """The terminal signals all processes of the foreground."""
    program = WAITS.replace("len(signals) < 3", "len(signals) < 1")
    program = program.replace("print(sorted", "time.sleep(0.3)  # for a second one\nprint(sorted")
    terminal, other_end = pty.openpty()
    options = {"stdin": other_end, "stderr": other_end, "preexec_fn": control_terminal}
    with start(tmp_path, program, **options) as running:
        os.close(other_end)
        assert running.stdout.readline() == "ready\n"
        os.write(terminal, b"\x03")
        assert running.stdout.readline() == f"{[signal.SIGINT.value]}\n"
        assert running.wait(timeout=60) == 0
    os.close(terminal)


def control_terminal():
    """Makes the standard input the terminal of a new session."""
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@pytest.mark.parametrize(
    ("end", "status", "why"),
    [
        ("os.kill(os.getpid(), 9)", 137, "ended by signal 9 (Killed)"),
        ("os.kill(os.getpid(), 11)", 139, "ended by signal 11 (Segmentation fault)"),
        ("os._exit(3)", 3, "ended by os._exit or exec"),
        ("os.execv('/bin/true', ['true'])", 0, "ended by os._exit or exec"),
    ],
)
def test_record_tells_that_a_program_that_ended_early_lost_events(tmp_path, end, status, why):
    done = record(tmp_path, f"import os, quarry; quarry.Pool().allocate(100); {end}")
    assert done.returncode == status
    assert f"incomplete: {tmp_path / 'out'}: the last events are missing: process " in done.stderr
    assert f"{why}; only a normal exit writes them" in done.stderr


def test_record_tells_which_children_ended_early_or_still_run(tmp_path):
    program = """
import os, sys, time, quarry
quarry.Pool().allocate(100)
if os.fork() == 0:
    quarry.Pool().allocate(200)
    os._exit(0)
os.wait()
ready, end = os.pipe()
if os.fork() == 0:
    quarry.Pool().allocate(300)
    os.close(1), os.close(2)
    os.write(end, b".")
    while os.path.exists(sys.argv[0]):
        time.sleep(0.01)
    sys.exit(0)
os.read(ready, 1)
"""
    done = record(tmp_path, program, "--json")
    (tmp_path / "program.py").unlink()  # ends the child that still runs
    values = json.loads(done.stdout)
    assert done.returncode == 0 and len(values["traces"]) == 3 and values["failures"] == []
    early, running = sorted(values["incomplete"], key=lambda text: "still" in text)
    assert early.endswith("ended by a signal, os._exit or exec; only a normal exit writes them")
    assert running.endswith("still runs, and writes them when it exits")


@pytest.mark.parametrize(("own", "status"), [(0, 2), (7, 7)])
def test_a_trace_that_cannot_be_written_is_one_message_and_a_status(tmp_path, own, status):
    """The limit on the size of files fails a write as a full disk does."""
    program = f"""
import resource, sys, quarry
pool = quarry.Pool()
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
for size in range(1, 20_000):
    pool.deallocate(pool.allocate(size))
sys.exit({own})
"""
    done = record(tmp_path, program)
    assert done.returncode == status
    messages = done.stderr.splitlines()
    assert messages[0] == (
        f"error: {tmp_path / 'out'}: cannot write the file: File too large: "
        f"{lost_of(messages)} events are lost"
    )
    assert "Traceback" not in done.stderr and "incomplete:" not in done.stderr


def lost_of(messages):
    """All events but those that the summary counts."""
    (read,) = [line for line in messages if line.startswith("wrote")]
    return 2 * 19_999 + 1 - int(read.split(": ")[1].split()[0].replace(",", ""))


def test_without_record_the_program_itself_tells_that_events_are_lost(tmp_path):
    program = """
import resource, quarry
pool = quarry.Pool()
resource.setrlimit(resource.RLIMIT_FSIZE, (20, 20))
pool.allocate(100)
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"QUARRY_RECORD": os.fspath(tmp_path / "out")},
    )
    assert done.stderr == (
        f"quarry record: {tmp_path / 'out'}: cannot write the file: File too large: "
        "2 events are lost\n"
    )


def test_a_trace_that_cannot_begin_leaves_no_file(tmp_path):
    program = """
import resource, quarry
resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))
try:
    quarry.Pool()
except quarry.ResourceFailed as failed:
    print("refused")
"""
    done = record(tmp_path, program)
    assert done.stdout == "refused\n"
    message = f"quarry record: {tmp_path / 'out'}: cannot write the file: File too large\n"
    assert done.stderr.startswith(message)
    assert not (tmp_path / "out").exists()
