# SPDX-License-Identifier: Apache-2.0
"""`quarry bench`: the table or the JSON lines of quarry.measurements."""

import json
from typing import Annotated, Any

import typer

from quarry.command_line.inputs import trace_input
from quarry.command_line.options import AcceptDamage, trace_name
from quarry.command_line.output import (
    BAD_INPUT,
    errors_shown,
    print_table,
    progress_of,
    show_problems,
    shown,
)


def bench(
    trace: Annotated[
        str | None,
        typer.Argument(
            metavar="TRACE",
            callback=trace_name,
            help="Also measure how fast this trace replays, from memory; - for the standard input.",
        ),
    ] = None,
    seconds: Annotated[
        float, typer.Option(min=0.1, max=3600, help="About how many seconds to measure, in all.")
    ] = 10,
    only: Annotated[
        str, typer.Option(help="all, pools, recording or replay, which needs a TRACE.")
    ] = "all",
    accept_damage: AcceptDamage = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object a line, as it is measured.")
    ] = False,
) -> None:
    """Measure this machine: pools, recording, and the replay of a trace.

    A pool has 1,000 allocations of random sizes and replaces a random one.
    The time is that of the free and the allocation. `direct` is the platform
    without a pool: malloc or cudaMalloc. The time to record is that of a
    processor for one event. Each value is the median of many short rounds;
    p10 and p90 say how far they lie apart.

    Exit status 0: measured. 2: bad options or input, or a damaged trace.
    """
    from quarry import measurements
    from quarry.traces import read_trace

    records = []
    with errors_shown(as_json), progress_of("measuring") as show:
        measurements.check_part(only, has_trace=trace is not None)
        read = None
        if trace is not None:
            with trace_input(trace, show) as path:
                read = read_trace(path, progress=show)
        cases = measurements.cases(read, only)
        for number, case in enumerate(cases, 1):
            show(f"{number} of {len(cases)}: {measurements.text_of(case.bench, case.params)}")
            record = measurements.record_of(case, seconds / len(cases))
            records.append(record)
            if as_json:
                print(json.dumps(record), flush=True)
    if not as_json:
        header = ("measurement", "median", "p10", "p90", "unit")
        print_table(header, [cells_of(record) for record in records], left=[0, 4])
    if read is not None and read.problem_count:
        show_problems([shown(problem) for problem in read.problems], read.problem_count)
        if not accept_damage:
            raise typer.Exit(BAD_INPUT)


def cells_of(record: dict[str, Any]) -> list[str]:
    from quarry import measurements

    text = measurements.text_of(record["bench"], record["params"])
    if record["value"] is None:
        return [text, "-", "-", "-", record["params"]["error"]]
    values = (record["value"], record["spread"]["p10"], record["spread"]["p90"])
    return [text, *(f"{value:,.4g}" for value in values), record["unit"]]
