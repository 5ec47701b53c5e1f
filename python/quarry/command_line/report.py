# SPDX-License-Identifier: Apache-2.0
"""`quarry report`: a page, and a picture, of a trace."""

import os
from typing import Annotated, Any

import typer

from quarry import _core
from quarry.command_line.inputs import STANDARD_INPUT, trace_input
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
    check_pool_options,
    file_option,
    is_given,
    price_option,
    strategy_list,
    strategy_option,
)
from quarry.command_line.output import errors_shown, finish, progress_of, rows_of_outputs
from quarry.errors import BadArgument
from quarry.options import DEFAULT_PLACEMENT, PLANNED


def report(
    context: typer.Context,
    trace: TraceFile,
    output: Annotated[str, file_option("--output", "-o", text="The HTML file to write.")],
    strategy: Annotated[
        list[str] | None,
        strategy_option(
            f"Replay in this pool: {strategy_list(needs_plan=False)}. May be repeated. "
            f"Default: {DEFAULT_PLACEMENT}."
        ),
    ] = None,
    heuristic: Heuristic = "never",
    capacity: Capacity = None,
    first_block: FirstBlock = "0",
    next_block: NextBlock = "0",
    growth: Growth = 4,
    shrink_after: ShrinkAfter = 0,
    with_tuning: Annotated[
        bool,
        typer.Option("--tune", help="Add a chart of hundreds of settings, and replay the best."),
    ] = False,
    us_per_gib: Annotated[
        float,
        price_option("With --tune: microseconds of the upstream that a GiB at the peak costs."),
    ] = _core.default_us_per_gib,
    png: Annotated[
        str | None,
        file_option(
            "--png",
            text="Also draw the charts for a paper: a .png, .pdf or .svg (needs matplotlib).",
        ),
    ] = None,
    title: Annotated[str, typer.Option(help="The title; the file's name if empty.")] = "",
    by_event: Annotated[
        bool, typer.Option("--by-event", help="Number the events on the axis, without times.")
    ] = False,
    allocator: Allocator = "",
    accept_damage: AcceptDamage = False,
    as_json: AsJson = False,
) -> None:
    """Write a page with a trace's timeline, blocks by address, fragmentation and call sites.

    The page needs no network. The charts show what each pool would have reserved.

    Exit status 0: success. 2: bad options or input, a damaged trace, or a file that cannot be
    written.
    """
    from quarry.replays import replay as run_replay
    from quarry.report import check_picture, write_report
    from quarry.tuning import tune as run_tune

    with (
        errors_shown(as_json),
        progress_of("reading") as show,
        new_files(output, png, source=trace) as [page, picture],
        trace_input(trace, show) as path,
    ):
        strategies = strategy or [DEFAULT_PLACEMENT]
        check_pool_options(
            strategies,
            heuristic=heuristic,
            first_block=first_block,
            next_block=next_block,
            growth=growth,
            shrink_after=shrink_after,
        )
        if chosen := set(strategies) & set(PLANNED):
            raise BadArgument(
                f"report: the strategy {min(chosen)} needs a plan, which a report does not take; "
                f"see quarry replay --strategy {min(chosen)} --plan FILE"
            )
        if is_given(context, "us_per_gib") and not with_tuning:
            raise BadArgument("report: --us-per-gib is the price for --tune; add --tune")
        if png:
            check_picture(png)
        common: dict[str, Any] = {
            "capacity": capacity,
            "allocator": allocator,
            "max_samples": 1 << 14,
            "progress": show,
        }
        replays = [
            run_replay(
                path,
                strategy=name,
                heuristic=heuristic,
                first_block=first_block,
                next_block=next_block,
                growth_percent=growth,
                shrink_after=shrink_after,
                **common,
            )
            for name in strategies
        ]
        sweep = None
        if with_tuning:
            sweep = run_tune(
                path, allocator=allocator, capacity=capacity, us_per_gib=us_per_gib, progress=show
            )
            if sweep.best:
                options = sweep.best.replay_options
                replays.append(run_replay(path, **options, **common))
        content = write_report(
            path,
            page,
            replays=replays,
            sweep=sweep,
            title=title or (STANDARD_INPUT if trace == "-" else os.path.basename(trace)),
            png=picture or None,
            by_event=by_event,
            allocator=allocator,
            step=show,
        )
    finish(
        {
            "trace": trace,
            "output": output,
            "png": png,
            "events": content.events,
            "summary": dict(content.summary),
            "problems": content.read_problems,
            "problem_count": content.problem_count,
        },
        lambda: rows_of_outputs(output, png),
        as_json=as_json,
        accept_damage=accept_damage,
    )
