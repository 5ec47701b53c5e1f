# SPDX-License-Identifier: Apache-2.0
"""`quarry record`: runs a program and records its allocations."""

from typing import Annotated, Any

import typer

from quarry.command_line.options import AsJson, file_option
from quarry.command_line.output import (
    BAD_INPUT,
    check_outputs,
    errors_shown,
    print_json,
    print_rows,
    show_problems,
    warn,
)
from quarry.errors import BadTrace
from quarry.sizes import format_size


def empty_trace(path: str, problem: str) -> dict[str, Any]:
    """What `record` says of a trace of which no event can be read."""
    counts = dict.fromkeys(("events", "peak_allocated", "peak_reserved"), 0)
    return {"trace": path} | counts | {"problems": [problem], "problem_count": 1}


def record(
    command: Annotated[
        list[str], typer.Argument(metavar="PROGRAM", help="The program to run, and its arguments.")
    ],
    output: Annotated[
        str, file_option("--output", "-o", text="The trace to write; an older file is replaced.")
    ] = "record.quarry",
    call_sites: Annotated[
        bool, typer.Option("--call-sites", help="Record the line of Python code that allocates.")
    ] = False,
    torch: Annotated[
        bool,
        typer.Option("--torch", help="Also record PyTorch's own allocator, through its history."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run a Python program, and record its pools of Quarry (quarry.Pool and the plug-ins).

    The exit status is that of the program, or 2 if it cannot run. It is also 2 if the program
    succeeds, but a trace cannot be written. Signals such as SIGTERM go to the program.
    A child process that makes pools writes a trace of its own.
    The summary goes to standard error; JSON ends the standard output.
    """
    from quarry.recorded_program import record_program
    from quarry.replays import replay as run_replay

    with errors_shown(as_json):
        check_outputs(output)
        done = record_program(command, output, call_sites=call_sites, torch=torch)
    status = done.status or (BAD_INPUT if done.failures else 0)
    traces: list[dict[str, Any]] = []
    for path in done.files:
        with errors_shown(as_json):
            try:
                found = run_replay(path, allocator="all")
            except BadTrace as failed:  # of a process that ended before its first events were whole
                traces.append(empty_trace(path, str(failed)))
                continue
        traces.append(
            {
                "trace": path,
                "events": found.events,
                "peak_allocated": found.pool.peak_allocated,
                "peak_reserved": found.recorded_peak_reserved,
                "problems": found.problems,
                "problem_count": found.problem_count,
            }
        )
    if as_json:
        print_json(
            {
                "command": command,
                "exit_status": done.status,
                "traces": traces,
                "incomplete": done.incomplete,
                "failures": done.failures,
            }
        )
        raise typer.Exit(status)
    for text in done.incomplete:
        warn("incomplete", text)
    for text in done.failures:
        warn("error", text, style="red")
    if traces:
        for each in traces:
            show_problems(each["problems"], each["problem_count"])
            peak, held = format_size(each["peak_allocated"]), format_size(each["peak_reserved"])
            text = (
                f"{each['trace']}: {each['events']:,} events, peak {peak} in use, {held} reserved"
            )
            print_rows([("wrote", text)], stderr=True)
    elif not done.incomplete and not done.failures:
        text = "no pool of Quarry was used"
        text += " and no PyTorch" if torch else "; --torch records PyTorch's own allocator"
        print_rows([("recorded nothing", text)], stderr=True)
    raise typer.Exit(status)
