# SPDX-License-Identifier: Apache-2.0
"""Recording: traces of the calls of pools.

`quarry record` sets the environment variable QUARRY_RECORD to the path of a trace. Then pools that
get no recorder, and the pools of the plug-ins, share one, which `recorder_of_environment` makes.
"""

import os
import threading
from types import TracebackType

from quarry import _core
from quarry.errors import BadArgument, ResourceFailed
from quarry.record_hook.quarry_process_end import at_process_end
from quarry.record_hook.quarry_trace_note import TraceNote
from quarry.sizes import parse_size

__all__ = [
    "CALL_SITES_VARIABLE",
    "ENVIRONMENT_VARIABLE",
    "Recorder",
    "recorder_of_environment",
]

ENVIRONMENT_VARIABLE = "QUARRY_RECORD"
CALL_SITES_VARIABLE = "QUARRY_RECORD_CALL_SITES"
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
    a child, appends a dot and its process id. The file is complete when the process exits. Raises
    ResourceFailed, and leaves no file, if the file cannot be written.
    """
    global _environment_recorder
    if not _path:
        return None
    with _lock:
        if _environment_recorder is None:
            _environment_recorder = _begin(_claim(_path))
        return _environment_recorder


def _begin(path: str) -> Recorder:
    note = TraceNote(path, "the last events")
    try:
        recorder = Recorder(path, call_sites=bool(os.environ.get(CALL_SITES_VARIABLE)))
    except ResourceFailed as failed:
        if path == _path:
            os.remove(path)  # `_claim` created it
        note.fail(str(failed))
        raise

    def complete() -> None:
        try:
            recorder.close()
        except ResourceFailed as failed:
            note.fail(str(failed))
        else:
            note.remove()

    at_process_end(complete)
    return recorder


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
