# SPDX-License-Identifier: Apache-2.0
"""Reports: one HTML file with a trace's timeline, blocks, fragmentation and call sites."""

import importlib.util
import os
from collections.abc import Callable, Sequence

from quarry.errors import BadArgument, BadState
from quarry.replays import ReplayResult
from quarry.report import survey
from quarry.report.content import Content, make_content
from quarry.report.survey import Source
from quarry.report.window import window_of
from quarry.traces import Trace
from quarry.tuning import TuneResult

PICTURES = (".png", ".pdf", ".svg")

__all__ = [
    "Content",
    "check_picture",
    "event_range",
    "make_content",
    "write_comparison",
    "write_report",
]


def write_report(
    trace: Trace | str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    replays: Sequence[ReplayResult] = (),
    sweep: TuneResult | None = None,
    title: str = "",
    png: str | os.PathLike[str] | None = None,
    by_event: bool = False,
    allocator: str = "all",
    begin: str | int | None = None,
    end: str | int | None = None,
    step: Callable[[str], object] = lambda name: None,
) -> Content:
    """Writes a report of a trace, and with `png` also a picture for papers (needs matplotlib).

    `replays` are shown beside what the trace recorded. `sweep` adds a chart of the tuned settings.
    A file is read twice, in batches, so its events need no memory, but those of the allocations in
    use. `allocator` is that of `quarry.replay`. `by_event` numbers the events on the axis instead
    of their times. `begin` and `end` limit the report to a part of the trace: each is an event's
    number, or a time since the first event, such as `1.5s`. Then replays with `sampled` (see
    `event_range`) are shown event by event; others as finely as their samples are. `step` is called with the name of each
    step. Raises BadState without matplotlib, and BadArgument for a picture of an unknown
    format, before it writes anything; and OSError if a file cannot be written.
    """
    from quarry.report import page

    if png is not None:
        check_picture(png)
    content = make_content(
        trace,
        replays,
        sweep=sweep,
        title=title,
        by_event=by_event,
        allocator=allocator,
        window=window_of(begin, end),
        step=step,
    )
    step("writing the page")
    write_file(output, page.html_of(content).encode())
    if png is not None:
        from quarry.report import png as pictures

        step("drawing the picture")
        write_file(png, pictures.picture_of(content, os.path.splitext(png)[1][1:]))
    return content


def event_range(
    trace: Trace | str | os.PathLike[str],
    *,
    allocator: str = "all",
    begin: str | int | None = None,
    end: str | int | None = None,
    step: Callable[[str], object] = lambda name: None,
) -> tuple[int, int | None]:
    """The first event of a part of a trace, and the event behind its last one (None: the trace's
    end), for `sampled` of `quarry.replay`. The arguments are those of `write_report`. Reads the
    trace if `begin` or `end` is a time."""
    return survey.event_range(Source(trace, allocator, window_of(begin, end)), step)


def write_comparison(
    first: Trace | str | os.PathLike[str],
    second: Trace | str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    titles: Sequence[str] = ("", ""),
    allocator: str = "all",
    begin: str | int | None = None,
    end: str | int | None = None,
    step: Callable[[str], object] = lambda name: None,
) -> tuple[Content, Content]:
    """Writes a page with two traces: their memory on the same axes, and what differs at their peaks
    by call site. The arguments are those of `write_report`; they apply to both traces.

    Call sites are the same if their names are equal, with all frames and line numbers.
    """
    from quarry.report import comparison

    window = window_of(begin, end)
    contents = [
        make_content(trace, title=title, allocator=allocator, window=window, step=step)
        for trace, title in zip((first, second), titles, strict=True)
    ]
    step("writing the page")
    write_file(output, comparison.html_of(*contents).encode())
    return contents[0], contents[1]


def write_file(path: str | os.PathLike[str], data: bytes) -> None:
    """Writes a file. Raises OSError with the file's name, which Python's error lacks if the disk
    is full.
    """
    try:
        with open(path, "wb") as file:
            file.write(data)
    except OSError as failed:
        raise OSError(failed.errno, failed.strerror, os.fspath(path)) from failed


def check_picture(path: str | os.PathLike[str]) -> None:
    """Raises BadState without matplotlib, and BadArgument if the suffix names no format."""
    if importlib.util.find_spec("matplotlib") is None:
        raise BadState("--png needs matplotlib: pip install matplotlib")
    if os.path.splitext(path)[1] not in PICTURES:
        raise BadArgument(f"{os.fspath(path)}: the name of a picture ends in {', '.join(PICTURES)}")
