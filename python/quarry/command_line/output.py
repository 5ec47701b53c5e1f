# SPDX-License-Identifier: Apache-2.0
"""What every command prints: results as rows or JSON, progress, errors, and exit statuses."""

import contextlib
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from quarry.errors import Error
from quarry.names import printable

Rows = list[tuple[str, str]]

DOES_NOT_FIT = 1
BAD_INPUT = 2


def example(command: str) -> str:
    return f"Example: [bold]{command}[/bold]"


@contextlib.contextmanager
def errors_shown(as_json: bool) -> Iterator[None]:
    """Ends the program with status 2 and the error's message."""
    try:
        yield
    except OSError as failed:
        text = f"{failed.filename}: {failed.strerror}" if failed.filename else str(failed)
        refuse(shown(text), type(failed).__name__, as_json)
    except (Error, MemoryError) as failed:
        refuse(shown(str(failed)) or "not enough memory", type(failed).__name__, as_json)


#: What messages name in place of the files in which pipes are copied.
_shown_names: dict[str, str] = {}


def show_as(path: str, name: str) -> None:
    """Lets the messages of this process name a file differently."""
    _shown_names[path] = name


def shown(text: str) -> str:
    """The text with the names that `show_as` chose."""
    for path, name in _shown_names.items():
        text = text.replace(path, name)
    return text


def one_line(text: str) -> str:
    """The text with escapes in place of its control characters, which names of files may have."""
    escape = r"[\x00-\x1f\x7f-\x9f\u2028\u2029]"
    return re.sub(escape, lambda found: found[0].encode("unicode_escape").decode(), printable(text))


def refuse(message: str, kind: str, as_json: bool) -> NoReturn:
    if as_json:
        print_json({"error": message, "type": kind})
    else:
        warn("error", message, style="red")
    raise typer.Exit(BAD_INPUT)


def check_outputs(*paths: str | None, source: str | None = None) -> None:
    """Raises OSError if a file of a later result cannot be written, or is the input `source`.
    Creates no file."""
    for path in filter(None, paths):
        if source and os.path.exists(path) and os.path.exists(source):
            if os.path.samefile(source, path):
                raise OSError(f"{path}: the output is the input; choose another file")
        folder = os.path.dirname(path) or "."
        if os.path.isdir(path):
            raise OSError(f"{path}: cannot write: it is a folder")
        if not os.path.isdir(folder):
            raise OSError(f"{path}: cannot write: there is no folder {folder}")
        if not os.access(path if os.path.exists(path) else folder, os.W_OK):
            raise OSError(f"{path}: cannot write: no permission")


@contextlib.contextmanager
def progress_of(what: str) -> Iterator[Callable[[int | str], None]]:
    """Shows how many events are done, or the name of the present step; nothing if no terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:  # older versions of Rich print an empty line, even if disabled
        yield lambda done: None
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    options: dict[str, Any] = {
        "transient": True,
        "redirect_stdout": False,
        "redirect_stderr": False,
    }
    with Progress(*columns, console=console, **options) as bar:
        task = bar.add_task(what)

        def show(done: int | str) -> None:
            text = f"{what}: {done:,} events" if isinstance(done, int) else done
            bar.update(task, description=text)

        yield show


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2 if sys.stdout.isatty() else None))


def print_rows(rows: Sequence[tuple[str, str]], *, stderr: bool = False) -> None:
    """Prints two columns. Long values are not broken: the terminal, or a program, does that."""
    console = Console(highlight=False, stderr=stderr)
    width = max((len(name) for name, _ in rows), default=0)
    for name, value in rows:
        console.print(
            Text(name.ljust(width + 2), style="cyan") + Text(one_line(value)), soft_wrap=True
        )


def rows_of_outputs(*paths: str | None) -> Rows:
    """The rows that name the files that a command wrote."""
    return [("wrote", path) for path in paths if path]


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int]) -> None:
    """Prints columns. Those with an index in `left` begin at one place; others end at one place."""
    console = Console(highlight=False)
    lines = [[one_line(cell) for cell in row] for row in (header, *rows)]
    widths = [max(len(cell) for cell in column) for column in zip(*lines, strict=True)]
    for number, row in enumerate(lines):
        cells = [
            cell.ljust(width) if i in left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        style = "bold" if number == 0 else ""
        console.print(Text("  ".join(cells).rstrip(), style=style), soft_wrap=True)


def warn(kind: str, text: str, *, style: str = "yellow") -> None:
    """Prints a line `kind: text` to standard error."""
    console = Console(stderr=True, highlight=False)
    console.print(Text(f"{kind}: ", style=style) + Text(one_line(text)), soft_wrap=True)


def show_problems(problems: Sequence[str], count: int) -> None:
    """Prints the first problems, and how many more there are."""
    for problem in problems[:3]:
        warn("skipped", problem)
    if count > 3:
        warn("skipped", f"{count - 3:,} more")


def finish(
    values: dict[str, Any],
    rows: Callable[[], Rows],
    *,
    as_json: bool,
    accept_damage: bool,
    after_rows: Callable[[], object] | None = None,
    status: int = 0,
) -> None:
    """Prints the result of a command that read a trace, and ends it with its exit status.

    `values` are the JSON object. Its `problems` and `problem_count` say what the reader skipped:
    then the status is 2 unless the user accepts that. `after_rows` prints more text. The command
    goes on after a status of 0.
    """
    count = values["problem_count"]
    values["problems"] = [shown(problem) for problem in values["problems"]]
    if as_json:
        print_json(values)
    else:
        print_rows(rows())
        if after_rows:
            after_rows()
        sys.stdout.flush()
        if values.get("events") == 0:
            warn("empty", "the trace has no events")
        show_problems(values["problems"], count)
    if count and not accept_damage:
        if not as_json:
            warn("damaged", "the result is that of the parts that were read; see --accept-damage")
        status = BAD_INPUT
    if status:
        raise typer.Exit(status)
