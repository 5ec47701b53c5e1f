# SPDX-License-Identifier: Apache-2.0
"""`quarry separate`: pools of their own for temporary allocations."""

from typing import Annotated

import typer

from quarry.command_line.inputs import trace_input
from quarry.command_line.new_files import new_files
from quarry.command_line.options import (
    AcceptDamage,
    Allocator,
    AsJson,
    Capacity,
    FirstBlock,
    Growth,
    Heuristic,
    NextBlock,
    ShrinkAfter,
    TraceFile,
    file_option,
    strategy_list,
    strategy_option,
)
from quarry.command_line.output import (
    DOES_NOT_FIT,
    errors_shown,
    finish,
    progress_of,
    rows_of_outputs,
    warn,
)
from quarry.options import DEFAULT_PLACEMENT


class NothingSaved(Exception):
    """One pool is as good as the separated ones, so there is no table to write."""


def separate(
    trace: TraceFile,
    output: Annotated[
        str | None,
        file_option(
            "--output",
            "-o",
            text="Write the routing table, for a pool to load, if it saves memory.",
        ),
    ] = None,
    key: Annotated[
        str,
        typer.Option(
            help="What tells allocations apart: size, call_site, call_site_and_size, phase, "
            "phase_and_size, or best: the one of these that saves most."
        ),
    ] = "best",
    temporary_events: Annotated[
        int,
        typer.Option(
            min=0,
            max=2**63,
            help="An allocation is temporary if its free comes fewer than this number of events "
            "later.",
        ),
    ] = 1000,
    learn: Annotated[
        float, typer.Option(help="The share of the trace to learn from, between 0 and 1.")
    ] = 0.5,
    strategy: Annotated[
        str, strategy_option(f"How the pools find memory: {strategy_list(is_placement=True)}.")
    ] = DEFAULT_PLACEMENT,
    heuristic: Heuristic = "never",
    capacity: Capacity = None,
    first_block: FirstBlock = "0",
    next_block: NextBlock = "0",
    growth: Growth = 4,
    shrink_after: ShrinkAfter = 0,
    allocator: Allocator = "",
    accept_damage: AcceptDamage = False,
    as_json: AsJson = False,
) -> None:
    """Learn which allocations of a trace are temporary, and what pools of their own save.

    One part of the trace is for learning; the other one is replayed with the result. A table that
    saves nothing is not written.

    Exit status 0: success. 1: the other part does not fit, or the table of --output saves nothing.
    2: bad options or input, a damaged trace, or a file that cannot be written.
    """
    from quarry.report import texts
    from quarry.separation import separate as run_separate

    written = None
    try:
        with (
            errors_shown(as_json),
            progress_of("separating") as show,
            new_files(output, source=trace) as [table],
            trace_input(trace, show) as path,
        ):
            result = run_separate(
                path,
                key=key,
                temporary_events=temporary_events,
                learn=learn,
                strategy=strategy,
                heuristic=heuristic,
                capacity=capacity,
                first_block=first_block,
                next_block=next_block,
                growth_percent=growth,
                shrink_after=shrink_after,
                allocator=allocator,
                progress=show,
            )
            if output:
                if not result.is_better:
                    raise NothingSaved
                result.table.save(table)
                written = output
    except NothingSaved:
        pass
    fits = result.together.fits and result.apart.fits

    def name_missing_table() -> None:
        if output and not written:
            warn("not written", f"{output}: its routes would save nothing; one pool is better")

    finish(
        {"trace": trace, "output": written} | result.to_dict(),
        lambda: texts.rows_of_separation(result) + rows_of_outputs(written),
        as_json=as_json,
        accept_damage=accept_damage,
        after_rows=name_missing_table,
        status=0 if fits and written == output else DOES_NOT_FIT,
    )
