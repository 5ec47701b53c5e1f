# SPDX-License-Identifier: Apache-2.0
"""Traces that come through a pipe."""

import contextlib
import os
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import IO, BinaryIO

from quarry.command_line.output import show_as
from quarry.errors import BadArgument

STANDARD_INPUT = "standard input"
COPIED_AT_ONCE = 1 << 20  # bytes


@contextlib.contextmanager
def trace_input(trace: str, show: Callable[[str], object] = lambda step: None) -> Iterator[str]:
    """Yields the name of a file with the trace, which may be read several times.

    `-` is the standard input. It and pipes are copied into a temporary file without a name, which
    ends with the process, however that ends. Messages name the pipe in its place. `show` is called
    with the name of this step. Raises BadArgument if the standard input is a terminal or closed,
    and OSError if the copy cannot be made.
    """
    if trace != "-" and not is_pipe(trace):
        yield trace
        return
    name = STANDARD_INPUT if trace == "-" else trace
    show(f"copying {name}")
    with contextlib.ExitStack() as files:
        source = standard_input() if trace == "-" else files.enter_context(open(trace, "rb"))
        copy = files.enter_context(copy_of(source, name))
        path = f"/proc/self/fd/{copy.fileno()}"  # opens the file anew, at its first byte
        show_as(path, name)
        yield path


def copy_of(source: BinaryIO, name: str) -> IO[bytes]:
    """A temporary file with the bytes that `source` still has. Raises OSError if it cannot be made."""
    try:
        with contextlib.ExitStack() as files:  # closing the file fails, too, if the disk is full
            copy = files.enter_context(tempfile.TemporaryFile(prefix="quarry-"))
            while data := source.read(COPIED_AT_ONCE):
                copy.write(data)
            copy.flush()
            files.pop_all()
            return copy
    except OSError as failed:
        raise OSError(
            f"{name}: cannot copy the trace into a temporary file in {tempfile.gettempdir()}: "
            f"{failed.strerror}; set TMPDIR to a folder with more room"
        ) from failed


def is_pipe(path: str) -> bool:
    with contextlib.suppress(OSError, ValueError):
        return stat.S_ISFIFO(os.stat(path).st_mode)
    return False


def standard_input() -> BinaryIO:
    if sys.stdin is None:
        raise BadArgument("-: the standard input is closed; name a file or a pipe")
    if sys.stdin.isatty():
        raise BadArgument("-: the standard input is a terminal; redirect a file or a pipe to it")
    return sys.stdin.buffer
