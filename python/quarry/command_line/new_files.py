# SPDX-License-Identifier: Apache-2.0
"""The files that a command writes. A file has its name only when the whole command succeeded."""

import contextlib
import os
import secrets
import signal
import stat
import sys
import threading
from collections.abc import Iterator
from typing import NoReturn

from quarry.command_line.output import check_outputs
from quarry.names import printable


@contextlib.contextmanager
def new_files(*paths: str | None, source: str | None = None) -> Iterator[list[str]]:
    """Yields a name to write to for each path; an empty name for None.

    These are empty files in the same folders. They replace `paths` at the end, or are removed if
    the body raises or the command is ended by a signal. So an older file is either replaced by a
    complete one or unharmed. A device or pipe is written directly. Raises OSError for paths that
    cannot be written, are the input `source`, or are the same file; and for the body's OSError,
    with the name of the path instead of the temporary one.
    """
    check_outputs(*paths, source=source)
    check_standard_output(*paths)
    final = [os.path.realpath(path) for path in paths if path]
    for path in paths:
        if path and final.count(os.path.realpath(path)) > 1 and not is_special(path):
            raise OSError(f"{path}: two outputs are this file; choose another name for one of them")
    with contextlib.ExitStack() as files:
        files.enter_context(signals_as_exits())
        yield [files.enter_context(new_file(path)) if path else "" for path in paths]


@contextlib.contextmanager
def new_file(path: str) -> Iterator[str]:
    """A single file of `new_files`."""
    if is_special(path):
        with errors_named(path, path):
            yield path
        return
    final = os.path.realpath(path) if os.path.islink(path) else path  # the link stays
    # The suffix stays, because the format of a picture depends on it.
    suffix = os.path.splitext(path)[1][:8]
    name = f".quarry-{secrets.token_hex(8)}{suffix}"
    folder = os.path.dirname(final)
    temporary = os.path.join(folder, name)
    if os.path.isdir(folder or ".") and not os.access(folder or ".", os.W_OK):
        raise OSError(f"{path}: cannot write: no permission to make a file in {folder or '.'}")
    with errors_named(temporary, path), errors_named(final, path):
        older = stat_of(final)
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        try:
            if older:
                give_owner_and_mode(temporary, older)
            yield temporary
            os.replace(temporary, final)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise


def is_special(path: str) -> bool:
    """Whether something other than a regular file has this name, such as a device or a pipe."""
    return os.path.exists(path) and not os.path.isfile(path)


def stat_of(path: str) -> os.stat_result | None:
    """What the system knows of a file; None if there is none. Raises OSError for a bad name."""
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def give_owner_and_mode(path: str, older: os.stat_result) -> None:
    """Gives a file the owner and the mode of an older one, as far as the user may."""
    with contextlib.suppress(OSError):
        if (older.st_uid, older.st_gid) != (os.geteuid(), os.getegid()):
            os.chown(path, older.st_uid, older.st_gid)
    with contextlib.suppress(OSError):
        os.chmod(path, stat.S_IMODE(older.st_mode))


def check_standard_output(*paths: str | None) -> None:
    """Raises OSError if a path, such as /dev/stdout, is the file or pipe that gets the summary."""
    try:
        summary = os.fstat(1)
    except OSError:  # it is closed
        return
    if not (stat.S_ISREG(summary.st_mode) or stat.S_ISFIFO(summary.st_mode)):
        return
    for path in filter(None, paths):
        if os.path.exists(path) and os.path.samestat(os.stat(path), summary):
            raise OSError(
                f"{path}: it is the standard output, which gets the summary; choose a file"
            )


@contextlib.contextmanager
def errors_named(temporary: str, path: str) -> Iterator[None]:
    """Raises the body's OSError with `path` in place of `temporary`."""
    try:
        yield
    except OSError as failed:
        if failed.filename == temporary:
            raise OSError(f"{path}: cannot write the file: {failed.strerror}") from failed
        shown = printable(temporary)  # as in the library's messages
        if failed.filename is None and shown in str(failed):
            raise type(failed)(str(failed).replace(shown, printable(path))) from failed
        raise


@contextlib.contextmanager
def signals_as_exits() -> Iterator[None]:
    """Lets SIGTERM and SIGHUP raise SystemExit, so that the body's temporary files are removed."""
    numbers = [getattr(signal, name, None) for name in ("SIGTERM", "SIGHUP")]
    is_main = threading.current_thread() is threading.main_thread()
    changed = [n for n in numbers if n and is_main and signal.getsignal(n) == signal.SIG_DFL]
    for number in changed:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in changed:
            signal.signal(number, signal.SIG_DFL)


def end(number: int, _frame: object) -> NoReturn:
    sys.exit(128 + number)
