# SPDX-License-Identifier: Apache-2.0
"""Notes that tell `quarry record` whether traces are complete. Uses the standard library only.

A process writes a note when it begins a trace, and removes it when the trace is complete. A process
that ends early, for example by SIGKILL, leaves it.
"""

import contextlib
import json
import os
import sys
import tempfile
from dataclasses import dataclass

FOLDER_VARIABLE = "QUARRY_RECORD_NOTES"


_ROOM = 16_384  # bytes of a note, so that `fail` needs no new block of a full disk


class TraceNote:
    """The note of this process for a trace. `contents` are missing until the process exits.

    No function raises an exception. Without `quarry record`, `fail` prints to standard error.
    """

    def __init__(self, trace: str, contents: str) -> None:
        self._values = {"process": os.getpid(), "trace": trace, "contents": contents}
        self._path: str | None = None
        folder = os.environ.get(FOLDER_VARIABLE)
        if folder:
            with contextlib.suppress(OSError):  # the command has ended, or the disk is full
                file, path = tempfile.mkstemp(dir=folder)
                with open(file, "wb") as note:
                    note.write(self._text("").ljust(_ROOM))
                self._path = path

    def remove(self) -> None:
        """The trace is complete."""
        if self._path is not None:
            with contextlib.suppress(OSError):
                os.remove(self._path)

    def fail(self, why: str) -> None:
        """The trace cannot be completed. `why` is a message that names it."""
        try:
            if self._path is None:
                raise FileNotFoundError
            with open(self._path, "r+b") as note:
                note.write(self._text(why))
        except OSError:
            print(f"quarry record: {why}", file=sys.stderr)

    def _text(self, failure: str) -> bytes:
        text = json.dumps(self._values | {"failure": failure}, ensure_ascii=False)
        return text.encode(errors="replace")


@dataclass(frozen=True)
class ReadNote:
    """A note that a process has left."""

    process: int
    trace: str
    contents: str
    failure: str  # empty if the process has not tried to complete the trace


def read_notes(folder: str) -> list[ReadNote]:
    """All notes, in the order of the process ids."""
    notes = []
    for entry in os.scandir(folder):
        with contextlib.suppress(OSError, ValueError):  # a process that still runs writes it
            with open(entry.path, encoding="utf-8") as file:
                notes.append(ReadNote(**json.load(file)))
    return sorted(notes, key=lambda note: note.process)
