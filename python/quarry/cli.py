# SPDX-License-Identifier: Apache-2.0
"""The command line `quarry`. The commands only read options and print; the work is done elsewhere.

Exit status:
  0    success
  1    the trace does not fit the capacity, an answer of `graph` is wrong, or the table of
       `separate` saves nothing
  2    bad input or bad options, or an output that cannot be written. A trace with damaged parts is
       bad input, too: the result of the parts that were read is printed, and the status is 2
       unless --accept-damage is given
  130  Control-C
`record` ends with the status of the program that it runs.

With --json, an error is the object {"error": message, "type": class} on standard output.

A snapshot of PyTorch whose history starts late, and the ring of a recorder, are not damaged.
"""

import contextlib
import io
import os
import signal
import sys
from typing import Annotated

import typer

from quarry import _core
from quarry.command_line.bench import bench
from quarry.command_line.completion import InstallCompletion, ShowCompletion
from quarry.command_line.graph import graph
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
    Strategy,
    TraceFile,
    UsPerAllocation,
    UsPerFree,
    check_pool_options,
    file_argument,
    file_option,
    separate_option,
)
from quarry.command_line.output import (
    BAD_INPUT,
    DOES_NOT_FIT,
    errors_shown,
    example,
    finish,
    print_json,
    print_rows,
    progress_of,
    rows_of_outputs,
    warn,
)
from quarry.command_line.record import record
from quarry.command_line.report import report
from quarry.command_line.separate import separate
from quarry.command_line.tune import tune
from quarry.command_line.usage_errors import CommandGroup
from quarry.errors import BadArgument
from quarry.options import DEFAULT_PLACEMENT, PLANNED
from quarry.sizes import format_size

app = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    for name in ("stdout", "stderr"):  # a shell's `>&-` closes them
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))
    if hasattr(signal, "SIGPIPE"):  # `quarry ... | head` ends as other commands do, silently
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    if isinstance(sys.stdout, io.TextIOWrapper):  # names may have letters that the terminal lacks
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
    except OSError as failed:  # of the output: the commands handle those of files
        target = failed.filename or "the output"  # a file if the completion is installed
        with contextlib.suppress(OSError):
            print(f"error: cannot write {target}: {failed.strerror}", file=sys.stderr)
        for stream in (sys.stdout, sys.stderr):  # else Python tries again
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        sys.exit(BAD_INPUT)


def print_version(is_requested: bool) -> None:
    if is_requested:
        from quarry import __version__

        print(f"quarry {__version__}")
        raise typer.Exit()


@app.callback(epilog=example("quarry replay gpt.pickle.gz --capacity 8GiB"))
def options_of_all_commands(
    version: Annotated[
        bool,
        typer.Option("--version", callback=print_version, is_eager=True, help="Print the version."),
    ] = False,
    install_completion: InstallCompletion = None,
    show_completion: ShowCompletion = None,
) -> None:
    """Memory management for GPUs: allocation traces, replay and reports.

    Exit status 0: success. 1: the trace does not fit, or an answer is wrong.
    2: bad options or input, a file that cannot be written, or a damaged trace
    without --accept-damage. 130: Control-C.
    """


@app.command(epilog=example("quarry info --json"))
def info(as_json: AsJson = False) -> None:
    """Print versions, devices, and what this build can do.

    Exit status 0: success. 2: bad options.
    """
    from quarry import information

    found = information.information()
    if as_json:
        print_json(found)
        return
    print_rows(information.rows_of(found))


app.command(epilog=example("quarry graph --scale 12"))(graph)
app.command(epilog=example("quarry bench --seconds 5"))(bench)
app.command(epilog=example("quarry report gpt.pickle.gz -o gpt.html"))(report)
app.command(
    epilog=example("quarry record -o train.quarry -- python train.py"),
    context_settings={"allow_interspersed_args": False, "help_option_names": ["-h", "--help"]},
)(record)


@app.command(epilog=example("quarry replay gpt.pickle.gz --strategy stitched --capacity 8GiB"))
def replay(
    trace: TraceFile,
    strategy: Strategy = DEFAULT_PLACEMENT,
    heuristic: Heuristic = "never",
    capacity: Capacity = None,
    first_block: FirstBlock = "0",
    next_block: NextBlock = "0",
    growth: Growth = 4,
    shrink_after: ShrinkAfter = 0,
    routes: Annotated[
        str | None,
        file_option(
            "--routes",
            text="Serve the allocations from several pools: a routing table of [bold]quarry "
            "separate[/bold].",
        ),
    ] = None,
    separate: Annotated[
        str,
        separate_option(
            "Serve the allocations from several pools, with routes that this trace "
            "teaches by this key"
        ),
    ] = "",
    plan: Annotated[
        str | None,
        file_option(
            "--plan",
            text=f"The plan of [bold]--strategy {' or '.join(PLANNED)}[/bold]: a file of "
            "[bold]quarry plan[/bold].",
        ),
    ] = None,
    resource: Annotated[
        str | None,
        typer.Option(
            help="Use real memory: host, device, pinned or managed. The time of its calls is "
            "measured.  [default: simulated memory]"
        ),
    ] = None,
    device: Annotated[
        int | None, typer.Option(min=0, help="The GPU of --resource; its number.  [default: 0]")
    ] = None,
    us_per_allocation: UsPerAllocation = _core.default_us_per_allocation,
    us_per_free: UsPerFree = _core.default_us_per_free,
    samples: Annotated[
        bool, typer.Option("--samples", help="With --json: add curves over time.")
    ] = False,
    allocator: Allocator = "",
    accept_damage: AcceptDamage = False,
    as_json: AsJson = False,
) -> None:
    """Replay a trace in a pool of Quarry: what would the pool have reserved, and does it fit?

    Without --resource, the memory is simulated, so the replay needs neither a GPU nor the memory.

    [bold]quarry tune[/bold] prints options for this command.

    Exit status 0: it fits. 1: it does not fit. 2: bad options or input, or a damaged trace.
    """
    from quarry.replays import replay as run_replay
    from quarry.report import texts
    from quarry.separation import learn_routes

    with errors_shown(as_json), progress_of("replaying") as show, trace_input(trace, show) as path:
        if device is not None and resource in (None, "host"):
            raise BadArgument(
                f"replay: --device {device} has no effect without the memory of a GPU; add "
                "--resource device, pinned or managed"
            )
        if samples and not as_json:
            raise BadArgument("replay: --samples adds the curves to the JSON object; add --json")
        check_pool_options(
            [strategy],
            heuristic=heuristic,
            first_block=first_block,
            next_block=next_block,
            growth=growth,
            shrink_after=shrink_after,
        )
        if routes and separate:
            raise BadArgument(
                "replay: --routes and --separate both say which pool serves an "
                "allocation; leave one of them out"
            )
        result = run_replay(
            path,
            strategy=strategy,
            heuristic=heuristic,
            capacity=capacity,
            first_block=first_block,
            next_block=next_block,
            growth_percent=growth,
            shrink_after=shrink_after,
            routing=learn_routes(path, key=separate, allocator=allocator, progress=show)
            if separate
            else routes,
            plan=plan,
            resource=resource,
            device=device or 0,
            us_per_allocation=us_per_allocation,
            us_per_free=us_per_free,
            allocator=allocator,
            progress=show,
        )

    def name_failure() -> None:
        if not result.fits:
            warn("does not fit", texts.failure_text(result), style="red")

    finish(
        {"trace": trace} | result.to_dict(samples=samples),
        lambda: texts.rows_of_replay(trace, result),
        as_json=as_json,
        accept_damage=accept_damage,
        after_rows=name_failure,
        status=0 if result.fits else DOES_NOT_FIT,
    )


app.command(epilog=example("quarry tune gpt.pickle.gz --capacity 8GiB"))(tune)
app.command(epilog=example("quarry separate gpt.pickle.gz"))(separate)


@app.command(epilog=example("quarry plan gpt.pickle.gz -o gpt.plan"))
def plan(
    trace: TraceFile,
    output: Annotated[
        str | None, file_option("--output", "-o", text="Write the plan, for a pool to load.")
    ] = None,
    alignment: Annotated[
        str, typer.Option(metavar="BYTES", help="Of all places: a power of two from 16 to 16384.")
    ] = "256",
    max_steps: Annotated[
        int,
        typer.Option(
            min=0, max=2**63, help="The work limit: about this many comparisons of two allocations."
        ),
    ] = 250_000_000,
    finds_period: Annotated[
        bool,
        typer.Option(
            "--period/--no-period",
            help="Whether a trace that repeats itself gets a plan of one repetition, which also "
            "serves longer runs, or a plan of all its allocations.",
        ),
    ] = True,
    allocator: Allocator = "",
    accept_damage: AcceptDamage = False,
    as_json: AsJson = False,
) -> None:
    """Place the allocations of a trace in one range, for the program's next run.

    Exit status 0: success. 2: bad options or input, a damaged trace, or a file that cannot be
    written.
    """
    from quarry.plans import make_plan
    from quarry.replays import replay as run_replay
    from quarry.report import texts

    with (
        errors_shown(as_json),
        progress_of("planning") as show,
        new_files(output, source=trace) as [target],
        trace_input(trace, show) as path,
    ):
        made = make_plan(
            path,
            alignment=alignment,
            finds_period=finds_period,
            max_steps=max_steps,
            allocator=allocator,
            progress=show,
        )
        default = run_replay(path, allocator=allocator, progress=show)
        served = run_replay(path, strategy="planned", plan=made, allocator=allocator, progress=show)
        if target:
            made.save(target)
    values = made.to_dict() | {
        "excess_percent": texts.excess_percent(made.bytes, made.lower_bound),
        "default_pool_peak_reserved": default.pool.peak_reserved,
        "planned_pool_peak_reserved": served.pool.peak_reserved,
        "served_by_the_plan": served.plan and served.plan.planned,
        "events": default.events,
        "problems": default.problems,
        "problem_count": default.problem_count,
    }
    finish(
        {"trace": trace, "output": output} | values,
        lambda: (
            texts.rows_of_plan(trace, made, default, served, finds_period) + rows_of_outputs(output)
        ),
        as_json=as_json,
        accept_damage=accept_damage,
    )


@app.command(epilog=example("quarry convert gpt.pickle.gz gpt.quarry"))
def convert(
    trace: TraceFile,
    output: Annotated[str, file_argument("OUTPUT", "The file to write.")],
    target: Annotated[
        str, typer.Option("--to", help="quarry, or rmm: RMM's log, which is CSV.")
    ] = "quarry",
    accept_damage: AcceptDamage = False,
    as_json: AsJson = False,
) -> None:
    """Write a trace in Quarry's own format, which is small and fast to read, or in RMM's.

    Exit status 0: success. 2: bad options or input, a damaged trace, or a file that cannot be
    written.
    """
    from quarry.traces import convert as run_convert

    with (
        errors_shown(as_json),
        progress_of("converting") as show,
        new_files(output, source=trace) as [written],
        trace_input(trace, show) as path,
    ):
        found = run_convert(path, written, target=target, progress=show)
        size = os.path.getsize(written)

    def rows() -> list[tuple[str, str]]:
        done = [("wrote", f"{output}: {found['events']:,} events, {format_size(size)}")]
        if skipped := found["skipped_events"]:
            done.append(("left out", f"{skipped:,} events that the format cannot hold"))
        return done

    finish(
        {"trace": trace, "output": output, "bytes": size} | found,
        rows,
        as_json=as_json,
        accept_damage=accept_damage,
    )


if __name__ == "__main__":
    main()
