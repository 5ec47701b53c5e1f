# SPDX-License-Identifier: Apache-2.0
"""Recording: traces of the calls of pools.

`quarry record` sets the environment variable QUARRY_RECORD to the path of a trace. Then pools that
get no recorder, and the pools of the plug-ins, share one, which `recorder_of_environment` makes.
"""

import contextlib
import glob
import os
import signal
import stat
import subprocess
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from quarry import _core
from quarry.errors import BadArgument
from quarry.record_hook.quarry_process_end import at_process_end
from quarry.sizes import parse_size

__all__ = [
    "ENVIRONMENT_VARIABLE",
    "RecordResult",
    "Recorder",
    "record_program",
    "recorder_of_environment",
]

ENVIRONMENT_VARIABLE = "QUARRY_RECORD"
CALL_SITES_VARIABLE = "QUARRY_RECORD_CALL_SITES"
_HOOK = Path(__file__).with_name("record_hook")  # Python imports its sitecustomize
_core.hide_code_of(os.path.dirname(__file__))


class Recorder(_core.Recorder):
    """Records the calls of pools: `quarry.Pool(recorder=...)`. Threads and pools may share it.

    With a `path` it writes a file, which `quarry.read_trace` reads. With `ring` (bytes, or a text
    such as `64MiB`) it keeps the last events in memory of this size; `save` writes them. A `with`
    block closes the file at its end. Later events are lost. With `call_sites` each allocation gets
    the line of Python code that made it, outside of Quarry and of the frameworks whose plug-ins are
    in use. This takes longer than the rest of the recording.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        ring: int | str | None = None,
        call_sites: bool = False,
    ) -> None:
        if (path is None) == (ring is None):
            raise BadArgument("recorder: set either path (a file) or ring (bytes of memory)")
        events = None if ring is None else parse_size(ring) // _core.event_bytes
        super().__init__(None if path is None else os.fspath(path), events, call_sites)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the events of the ring to a file. Raises BadState if there is no ring."""
        super().save(os.fspath(path))

    def __enter__(self) -> "Recorder":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


_lock = threading.Lock()
_environment_recorder: Recorder | None = None
_path = os.environ.get(ENVIRONMENT_VARIABLE, "")


def recorder_of_environment() -> Recorder | None:
    """The recorder that QUARRY_RECORD asks for, or None if it was not set at import.

    The first process that records creates the file of this name. Each other process, for example
    a child, appends a dot and its process id. The file is complete when the process exits.
    """
    global _environment_recorder
    if not _path:
        return None
    with _lock:
        if _environment_recorder is None:
            has_call_sites = bool(os.environ.get(CALL_SITES_VARIABLE))
            _environment_recorder = Recorder(_claim(_path), call_sites=has_call_sites)
            at_process_end(_environment_recorder.close)
        return _environment_recorder


def _claim(path: str) -> str:
    """Creates the file, or one with the process id in its name if the file exists."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
    except FileExistsError:
        return f"{path}.{os.getpid()}"
    return path


def _forget_in_child() -> None:
    """A child of a fork cannot write its parent's file. Its pools get a file of their own."""
    global _environment_recorder, _lock
    _lock = threading.Lock()
    _environment_recorder = None
    _core.plugin_forget_recordings()


os.register_at_fork(after_in_child=_forget_in_child)


@dataclass(frozen=True)
class RecordResult:
    """What a program did that ran under `record_program`."""

    status: int  # the program's exit status; 128 plus the number of a signal that ended it
    files: list[str]  # one trace for each process that recorded


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
    program cannot run, or if `path` is no regular file or a file of the command; BadTrace if a
    history cannot be read. Control-C reaches the program only.
    """
    path = os.path.abspath(path)
    _check_replaceable(path, command)
    with _moved_away(path):
        return _record(command, path, _environment(path, call_sites, torch))


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


def _record(command: Sequence[str], path: str, environment: dict[str, str]) -> RecordResult:
    older = {*_files_of(path), *_snapshots_of(path)}
    process = subprocess.Popen(command, env=environment)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        status = process.wait()
    finally:
        signal.signal(signal.SIGINT, before)
    # The program's own process comes first: its history gets `path`.
    snapshots = [name for name in _snapshots_of(path) if name not in older]
    snapshots.sort(key=lambda name: _process_of(name) != process.pid)
    for name in snapshots:
        _convert_snapshot(name, path)
    files = [name for name in _files_of(path) if name not in older]
    return RecordResult(128 - status if status < 0 else status, files)


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
