# SPDX-License-Identifier: Apache-2.0
"""`quarry report` of a trace that `quarry-mpirun --trace` wrote."""

import dataclasses
import os

import typer

from quarry.command_line.new_files import new_files
from quarry.command_line.options import is_given
from quarry.command_line.output import errors_shown, finish, progress_of, rows_of_outputs
from quarry.errors import BadArgument
from quarry.mpi_traces import is_mpi_trace

#: Parameters of `report` that have an effect on a report of an MPI program.
OF_MPI = {"trace", "output", "title", "as_json", "accept_damage"}


def is_for_mpi(trace: str, other: str | None) -> bool:
    """Whether the trace is that of an MPI program. Raises BadArgument if only one of two is."""
    first = os.path.isfile(trace) and is_mpi_trace(trace)
    second = other is not None and os.path.isfile(other) and is_mpi_trace(other)
    if second or (first and other is not None):
        raise BadArgument("report: traces of MPI programs cannot be compared; give one of them")
    return first


def report_mpi(
    context: typer.Context, trace: str, output: str, title: str, *, as_json: bool
) -> None:
    """Writes the page, and prints its main figures."""
    from quarry.mpi_report import text_of, write_mpi_report

    with (
        errors_shown(as_json),
        progress_of("reading") as show,
        new_files(output, source=trace) as [page],
    ):
        for each in context.command.params:
            if each.name is not None and each.name not in OF_MPI and is_given(context, each.name):
                raise BadArgument(
                    f"report: {each.opts[0]} has no effect on a trace of an MPI program; leave it "
                    "out"
                )
        content = write_mpi_report(trace, page, title=title or os.path.basename(trace), step=show)
    found = content.trace
    finish(
        {
            "trace": trace,
            "output": output,
            "ranks": found.ranks,
            "calls": content.call_count,
            "missing": found.missing,
            "duration_ns": content.duration,
            "messages": int(content.matrix.messages.sum()),
            "bytes": int(content.matrix.bytes.sum()),
            "lost_ns": content.lost,
            "culprits": [dataclasses.asdict(row) for row in content.culprits[:100]],
            "calls_by_place": [dataclasses.asdict(row) for row in content.calls],
            "problems": [],
            "problem_count": 0,
        },
        lambda: rows_of_outputs(output),
        as_json=as_json,
        accept_damage=False,
        after_rows=lambda: print("\n" + text_of(content)),
    )
