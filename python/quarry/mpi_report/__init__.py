# SPDX-License-Identifier: Apache-2.0
"""Reports of MPI programs: ranks over time, messages, and who made others wait."""

import os
from collections.abc import Callable

from quarry.mpi_report.analysis import MpiContent, analyse
from quarry.mpi_report.text import text_of
from quarry.mpi_traces import MpiTrace, read_mpi_trace

__all__ = ["MpiContent", "analyse", "text_of", "write_mpi_report"]


def write_mpi_report(
    trace: MpiTrace | str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    title: str = "",
    step: Callable[[str], object] = lambda name: None,
) -> MpiContent:
    """Writes a page about a trace of `quarry-mpirun --trace`, and returns what it shows.

    `step` is called with the name of each step. Raises BadArgument if the trace is damaged, and
    OSError if a file cannot be read or written.
    """
    from quarry.mpi_report import page
    from quarry.report import write_file

    if not isinstance(trace, MpiTrace):
        step("reading")
        trace = read_mpi_trace(trace)
    content = analyse(trace, step)
    step("writing the page")
    write_file(output, page.html_of(content, title or "MPI program").encode())
    return content
