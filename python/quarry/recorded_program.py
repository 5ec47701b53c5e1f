# SPDX-License-Identifier: Apache-2.0
"""Runs a program under `quarry record`."""

import contextlib
import glob
import os
import signal
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from quarry.record_hook.quarry_trace_note import FOLDER_VARIABLE, read_notes
from quarry.recording import CALL_SITES_VARIABLE, ENVIRONMENT_VARIABLE

__all__ = ["RecordResult", "record_program"]

_HOOK = Path(__file__).with_name("record_hook")  # Python imports its sitecustomize


@dataclass(frozen=True)
class RecordResult:
    """What a program did that ran under `record_program`."""

    status: int  # the program's exit status; 128 plus the number of a signal that ended it
    files: list[str]  # one trace for each process that recorded
    incomplete: list[str]  # what a process did not write because it ended early or still runs
    failures: list[str]  # what could not be written, for example because the disk is full


def record_program(
    command: Sequence[str],
    path: str | os.PathLike[str],
    *,
    call_sites: bool = False,
    torch: bool = False,
) -> RecordResult:
    """Runs a program whose pools record to `path`, and waits for it. Replaces an older regular file
    once there is a new one.

    `call_sites` as for `Recorder`. With `torch`, PyTorch also keeps its own history of the
    allocations of its caching allocator, in memory until a process exits. `path` is then the
    history of the first process, unless a pool of Quarry recorded to `path`. Raises OSError if the
    program cannot run, or if `path` is not a regular file or is a file of the command; BadTrace if
    a history cannot be read.

    Needs the main thread. Meanwhile SIGTERM, SIGHUP, SIGINT and SIGQUIT reach the program only.
    Keys of the terminal, such as Control-C, signal the program directly, and once.
    """
    path = os.path.abspath(path)
    _check_replaceable(path, command)
    with _moved_away(path), _folder_of_notes() as notes:
        environment = _environment(path, call_sites, torch) | {FOLDER_VARIABLE: notes}
        return _record(command, path, environment, notes)


def _check_replaceable(path: str, command: Sequence[str]) -> None:
    if not os.path.lexists(path):
        return
    if not stat.S_ISREG(os.lstat(path).st_mode):
        raise OSError(f"{path}: is no regular file; record to another name")
    if any(os.path.exists(word) and os.path.samefile(word, path) for word in command):
        raise OSError(f"{path}: is a file of the command; record to another name")


@contextlib.contextmanager
def _moved_away(path: str) -> Iterator[None]:
    """Gives an older file another name meanwhile. It returns if nothing took its place."""
    older = f"{path}.older-{os.getpid()}"
    if not os.path.exists(path):
        yield
        return
    os.rename(path, older)
    try:
        yield
    finally:
        if os.path.exists(path):
            os.remove(older)
        else:
            os.rename(older, path)


def _folder_of_notes() -> tempfile.TemporaryDirectory[str]:
    # A process that still runs may write a note while the folder is removed.
    return tempfile.TemporaryDirectory(prefix="quarry-record-", ignore_cleanup_errors=True)


def _record(
    command: Sequence[str], path: str, environment: dict[str, str], notes: str
) -> RecordResult:
    older = {*_files_of(path), *_snapshots_of(path)}
    process, status = _run(command, environment)
    # The program's own process comes first: its history gets `path`.
    snapshots = [name for name in _snapshots_of(path) if name not in older]
    snapshots.sort(key=lambda name: _process_of(name) != process)
    for name in snapshots:
        _convert_snapshot(name, path)
    files = [name for name in _files_of(path) if name not in older]
    incomplete, failures = [], []
    for note in read_notes(notes):
        if note.failure:
            failures.append(note.failure)
        else:
            why = _why_incomplete(note.process, status if note.process == process else None)
            incomplete.append(f"{note.trace}: {note.contents} are missing: {why}")
    return RecordResult(128 - status if status < 0 else status, files, incomplete, failures)


def _why_incomplete(process: int, status: int | None) -> str:
    """`status` is that of `subprocess`; None if only the process itself knows."""
    if status is None and os.path.exists(f"/proc/{process}"):
        return f"process {process} still runs, and writes them when it exits"
    if status is None:
        how = "a signal, os._exit or exec"
    elif status >= 0:
        how = "os._exit or exec"
    else:
        how = f"signal {-status} ({signal.strsignal(-status)})"
    return f"process {process} ended by {how}; only a normal exit writes them"


_FROM_TERMINAL = (signal.SIGINT, signal.SIGQUIT)  # by keys, to all processes in the foreground
_FORWARDED = (signal.SIGTERM, signal.SIGHUP, *_FROM_TERMINAL)


def _run(command: Sequence[str], environment: dict[str, str]) -> tuple[int, int]:
    """Runs a program to its end, and forwards signals to it. Returns its process id and status."""
    process: subprocess.Popen[bytes] | None = None
    early: list[int] = []

    def forward(number: int, _: FrameType | None) -> None:
        if number in _FROM_TERMINAL and _is_in_foreground():
            return  # the program has the signal
        if process is None:
            early.append(number)
        else:
            process.send_signal(number)

    # The program ignores what this process ignores, for example SIGHUP under nohup.
    forwarded = [n for n in _FORWARDED if signal.getsignal(n) not in (signal.SIG_IGN, None)]
    with _handled(forwarded, forward) as next_signal:
        process = subprocess.Popen(command, env=environment)
        for number in early:
            process.send_signal(number)
        while process.poll() is None:
            next_signal()
        return process.pid, process.returncode


@contextlib.contextmanager
def _handled(
    numbers: Sequence[int], handler: Callable[[int, FrameType | None], None]
) -> Iterator[Callable[[], object]]:
    """Calls `handler` for each of these signals. The result waits for one, or for the end of a
    child: it returns at once if there was any since the last call."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    older_writer = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    older = {number: signal.signal(number, handler) for number in numbers}
    older[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda *_: None)
    try:
        yield lambda: os.read(reader, 4096)
    finally:
        for number, each in older.items():
            signal.signal(number, signal.SIG_DFL if each is None else each)
        signal.set_wakeup_fd(older_writer)
        os.close(reader)
        os.close(writer)


def _is_in_foreground() -> bool:
    """Whether this process belongs to the job that gets the signals of a terminal's keys."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False  # no terminal
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def _environment(path: str, call_sites: bool, torch: bool) -> dict[str, str]:
    result = os.environ | {
        ENVIRONMENT_VARIABLE: path,
        CALL_SITES_VARIABLE: "1" if call_sites else "",
    }
    if torch:
        others = os.environ.get("PYTHONPATH")
        result["PYTHONPATH"] = os.pathsep.join([str(_HOOK), *([others] if others else [])])
    return result


def _snapshots_of(path: str) -> list[str]:
    """The histories of PyTorch that quarry/record_hook wrote."""
    names = sorted(glob.glob(f"{glob.escape(path)}.*.snapshot"))
    return [name for name in names if _process_of(name)]


def _process_of(snapshot: str) -> int:
    number = snapshot.split(".")[-2]
    return int(number) if number.isdigit() else 0


def _convert_snapshot(snapshot: str, path: str) -> None:
    """Converts a history to a trace beside those of Quarry's pools, and removes the history."""
    from quarry.traces import convert

    number = _process_of(snapshot)
    names = (path, f"{path}.{number}", f"{path}.torch.{number}")
    convert(snapshot, next(name for name in names if not os.path.exists(name)))
    os.remove(snapshot)


def _files_of(path: str) -> list[str]:
    """The trace of this name, then those of other processes."""
    others = sorted(glob.glob(f"{glob.escape(path)}.*"))
    numbered = [name for name in others if name.rpartition(".")[2].isdigit()]
    return [name for name in (path, *numbered) if os.path.exists(name)]
