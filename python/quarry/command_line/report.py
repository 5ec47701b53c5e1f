# SPDX-License-Identifier: Apache-2.0
"""`quarry report`: a page, and a picture, of a trace."""

import os
from typing import Annotated, Any

import typer

from quarry import _core
from quarry.command_line.inputs import STANDARD_INPUT, trace_input
from quarry.command_line.mpi_report import is_for_mpi, report_mpi
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
    file_argument,
    file_option,
    is_given,
    position_option,
    price_option,
    strategy_list,
    strategy_option,
)
from quarry.command_line.output import (
    check_outputs,
    errors_shown,
    finish,
    progress_of,
    rows_of_outputs,
)
from quarry.errors import BadArgument
from quarry.options import DEFAULT_PLACEMENT, PLANNED


def report(
    context: typer.Context,
    trace: TraceFile,
    output: Annotated[str, file_option("--output", "-o", text="The HTML file to write.")],
    other: Annotated[
        str | None,
        file_argument("OTHER", "A second trace: the page compares both, without replays."),
    ] = None,
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
    begin: Annotated[
        str, position_option("--from", "Show the trace from here on; older allocations count.")
    ] = "",
    end: Annotated[str, position_option("--to", "Show the trace up to here.")] = "",
    allocator: Allocator = "",
    accept_damage: AcceptDamage = False,
    as_json: AsJson = False,
) -> None:
    """Write a page with a trace's timeline, what is in use at any moment, and call sites.

    The page needs no network. The charts show what each pool would have reserved. With a second
    trace, the page compares both.

    A trace of quarry-mpirun --trace gives a page of its own: ranks over time, messages, and which
    rank made others wait.

    Exit status 0: success. 2: bad options or input, a damaged trace, or a file that cannot be
    written.
    """
    with errors_shown(as_json):
        is_of_ranks = is_for_mpi(trace, other)
    if is_of_ranks:
        report_mpi(context, trace, output, title, as_json=as_json)
        return
    if other is not None:
        compare(context, trace, other, output, allocator, begin, end, accept_damage, as_json)
        return
    from quarry.replays import replay as run_replay
    from quarry.report import check_picture, event_range, write_report
    from quarry.report.window import window_of
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
        window_of(begin, end)  # refuses bad positions before the replays
        if png:
            check_picture(png)
        sampled = event_range(path, allocator=allocator, begin=begin, end=end, step=show)
        common: dict[str, Any] = {
            "sampled": sampled,
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
            title=title or name_of(trace),
            png=picture or None,
            by_event=by_event,
            allocator=allocator,
            begin=begin,
            end=end,
            step=show,
        )
    finish(
        {
            "trace": trace,
            "output": output,
            "png": png,
            "events": content.events - content.first,
            "summary": dict(content.summary),
            "problems": content.read_problems,
            "problem_count": content.problem_count,
        },
        lambda: rows_of_outputs(output, png),
        as_json=as_json,
        accept_damage=accept_damage,
    )


#: Parameters of `report` that concern the replays or the picture of one trace.
OF_ONE_TRACE = {
    "strategy", "heuristic", "capacity", "first_block", "next_block", "growth", "shrink_after",
    "with_tuning", "us_per_gib", "png", "title", "by_event",
}  # fmt: skip


def compare(
    context: typer.Context,
    trace: str,
    other: str,
    output: str,
    allocator: str,
    begin: str,
    end: str,
    accept_damage: bool,
    as_json: bool,
) -> None:
    """`quarry report A B`."""
    from quarry.report import write_comparison
    from quarry.report.window import window_of

    with (
        errors_shown(as_json),
        progress_of("reading") as show,
        new_files(output, source=trace) as [page],
        trace_input(trace, show) as first,
        trace_input(other, show) as second,
    ):
        check_outputs(output, source=other)
        options = {each.name: each.opts[0] for each in context.command.params}
        for name in sorted(OF_ONE_TRACE):
            if is_given(context, name):
                raise BadArgument(
                    f"report: {options[name]} has no effect on a comparison of two traces; leave "
                    "it out"
                )
        if trace == other == "-":
            raise BadArgument("report: the standard input has only one of the two traces")
        window_of(begin, end)
        contents = write_comparison(
            first,
            second,
            page,
            titles=[name_of(trace), name_of(other)],
            allocator=allocator,
            begin=begin,
            end=end,
            step=show,
        )
    problems = [problem for each in contents for problem in each.read_problems]
    finish(
        {
            "trace": trace,
            "other": other,
            "output": output,
            "events": [each.events - each.first for each in contents],
            "peak_requested": [each.peak_requested for each in contents],
            "problems": problems,
            "problem_count": sum(each.problem_count for each in contents),
        },
        lambda: rows_of_outputs(output),
        as_json=as_json,
        accept_damage=accept_damage,
    )


def name_of(trace: str) -> str:
    """The name of a trace for people."""
    return STANDARD_INPUT if trace == "-" else os.path.basename(trace)
