# SPDX-License-Identifier: Apache-2.0
"""The command line `quarry`. The commands only read options and print; the work is done elsewhere.

Exit status: 0 success; 1 the trace does not fit the capacity; 2 bad input or bad options.
"""

import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from quarry.errors import Error
from quarry.sizes import format_size

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Memory management for GPUs: allocation traces, replay and reports.",
)

TraceFile = Annotated[
    str,
    typer.Argument(
        metavar="TRACE", help="A trace in a format that [bold]quarry info[/bold] lists."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Strategy = Annotated[
    str,
    typer.Option(
        "--strategy",
        "-s",
        help="fast, lowest-best-fit, oldest-best-fit, stitched, streams, planned or direct (no pool).",
    ),
]
Heuristic = Annotated[
    str,
    typer.Option(
        "--heuristic",
        "-H",
        help="When the pool coalesces: never, percent:N, blocks:N, cost:N; add +hwm, +cbg, +2022.",
    ),
]
SIZE = "SIZE"


def size_option(*names: str, text: str) -> Any:
    return typer.Option(*names, metavar=SIZE, help=text + " Examples: 512MiB, 2GB.")


Allocator = Annotated[
    str,
    typer.Option(
        "--allocator", help="Use the events of this allocator, for example 'device 1'; or all."
    ),
]
FirstBlock = Annotated[str, size_option("--first-block", text="Size of the pool's first block.")]
NextBlock = Annotated[
    str, size_option("--next-block", text="Minimum size of the pool's later blocks.")
]


def main() -> None:
    app()


def example(command: str) -> str:
    return f"Example: [bold]{command}[/bold]"


@contextlib.contextmanager
def errors_shown(as_json: bool) -> Iterator[None]:
    """Ends the program with status 2 and the error's message."""
    try:
        yield
    except (Error, OSError) as failed:
        refuse(str(failed), type(failed).__name__, as_json)


def refuse(message: str, kind: str, as_json: bool) -> NoReturn:
    if as_json:
        print(json.dumps({"error": message, "type": kind}))
    else:
        Console(stderr=True).print("[red]error:[/red]", message, markup=True, soft_wrap=True)
    raise typer.Exit(2)


@contextlib.contextmanager
def progress_of(what: str) -> Iterator[Callable[[int | str], None]]:
    """Shows how many events are done, or the name of the present step; nothing if no terminal."""
    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task(what)

        def show(done: int | str) -> None:
            text = f"{what}: {done:,} events" if isinstance(done, int) else done
            bar.update(task, description=text)

        yield show


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2 if sys.stdout.isatty() else None))


def show_problems(problems: list[str], count: int) -> None:
    if not problems:
        return
    console = Console(stderr=True)
    for problem in problems[:3]:
        console.print("[yellow]skipped:[/yellow]", problem, soft_wrap=True, highlight=False)
    if count > 3:
        console.print(f"[yellow]skipped:[/yellow] {count - 3:,} more", highlight=False)


def print_rows(rows: list[tuple[str, str]], *, stderr: bool = False) -> None:
    """Prints two columns. Long values are not broken: the terminal, or a program, does that."""
    console = Console(highlight=False, stderr=stderr)
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        console.print(Text(name.ljust(width + 2), style="cyan") + Text(value), soft_wrap=True)


@app.command(epilog=example("quarry info --json"))
def info(as_json: AsJson = False) -> None:
    """Print versions, devices, and what this build can do."""
    from quarry import information

    found = information.information()
    if as_json:
        print_json(found)
        return
    print_rows(information.rows_of(found))


@app.command(
    epilog=example("quarry record -o train.quarry -- python train.py"),
    context_settings={"allow_interspersed_args": False, "help_option_names": ["-h", "--help"]},
)
def record(
    command: Annotated[
        list[str], typer.Argument(metavar="PROGRAM [ARGUMENT]...", help="The program to run.")
    ],
    output: Annotated[
        str, typer.Option("--output", "-o", help="The trace to write; an older file is replaced.")
    ] = "record.quarry",
    as_json: AsJson = False,
) -> None:
    """Run a Python program, and record the calls of its pools (quarry.Pool).

    The exit status is that of the program, or 2 if it cannot run. A child process that makes pools
    writes a trace of its own. The summary goes to standard error; JSON is the last line of standard
    output.
    """
    from quarry.recording import record_program
    from quarry.replays import replay as run_replay

    with errors_shown(as_json):
        done = record_program(command, output)
    traces = []
    for path in done.files:
        with errors_shown(as_json):
            found = run_replay(path, allocator="all")
        traces.append(
            {
                "trace": path,
                "events": found.events,
                "peak_allocated": found.pool.peak_allocated,
                "peak_reserved": found.recorded_peak_reserved,
                "problems": found.problems,
            }
        )
    if as_json:
        print_json({"command": command, "exit_status": done.status, "traces": traces})
    elif traces:
        for each in traces:
            show_problems(each["problems"], len(each["problems"]))
            peak, held = format_size(each["peak_allocated"]), format_size(each["peak_reserved"])
            text = f"{each['trace']}: {each['events']:,} events, peak {peak} in use, {held} reserved"
            print_rows([("wrote", text)], stderr=True)
    else:
        print_rows(
            [("recorded nothing", "the program made no pool with quarry.Pool")], stderr=True
        )
    raise typer.Exit(done.status)


@app.command(epilog=example("quarry replay gpt.pickle.gz --strategy stitched --capacity 8GiB"))
def replay(
    trace: TraceFile,
    strategy: Strategy = "fast",
    heuristic: Heuristic = "never",
    capacity: Annotated[
        str | None, size_option("--capacity", "-c", text="Limit on the reserved memory.")
    ] = None,
    first_block: FirstBlock = "0",
    next_block: NextBlock = "0",
    plan: Annotated[
        str | None,
        typer.Option("--plan", help="The plan of [bold]--strategy planned[/bold]."),
    ] = None,
    us_per_allocation: Annotated[
        float, typer.Option(help="Modelled time of an allocation from the upstream.")
    ] = 100,
    us_per_free: Annotated[float, typer.Option(help="Modelled time of a free.")] = 100,
    samples: Annotated[bool, typer.Option("--samples", help="Add the curves to --json.")] = False,
    allocator: Allocator = "",
    as_json: AsJson = False,
) -> None:
    """Replay a trace in a pool of Quarry: what would the pool have reserved, and does it fit?

    Exit status 0: it fits. 1: it does not fit. 2: bad input.
    """
    from quarry.replays import replay as run_replay

    with errors_shown(as_json), progress_of("replaying") as show:
        result = run_replay(
            trace,
            strategy=strategy,
            heuristic=heuristic,
            capacity=capacity,
            first_block=first_block,
            next_block=next_block,
            plan=plan,
            us_per_allocation=us_per_allocation,
            us_per_free=us_per_free,
            allocator=allocator,
            progress=show,
        )
    if as_json:
        print_json({"trace": trace} | result.to_dict(samples=samples))
    else:
        from quarry.report import texts

        print_rows(texts.rows_of_replay(trace, result))
        show_problems(result.problems, result.problem_count)
        if not result.fits:
            Console(stderr=True).print(
                "[red]does not fit:[/red]", texts.failure_text(result), soft_wrap=True
            )
    if not result.fits:
        raise typer.Exit(1)


UsPerGib = Annotated[
    float,
    typer.Option(help="The price of memory: microseconds of the upstream for a GiB at the peak."),
]


@app.command(epilog=example("quarry tune gpt.pickle.gz --capacity 8GiB"))
def tune(
    trace: TraceFile,
    capacity: Annotated[
        str | None, size_option("--capacity", "-c", text="Limit on the reserved memory.")
    ] = None,
    us_per_gib: UsPerGib = 100_000,
    candidates: Annotated[
        str, typer.Option(help="all, or Umpire's heuristics: published, 2022 or 2024.")
    ] = "all",
    goal: Annotated[
        str, typer.Option(help="front, or only the best setting; all: drop no setting early.")
    ] = "front",
    threads: Annotated[int, typer.Option(help="0: one for each processor.")] = 0,
    allocator: Allocator = "",
    as_json: AsJson = False,
) -> None:
    """Replay a trace with hundreds of settings: the best ones, and the code that sets the best.

    Exit status 0: a setting fits. 1: none fits. 2: bad input.
    """
    from quarry.report import texts
    from quarry.tuning import tune as run_tune

    with errors_shown(as_json), progress_of("tuning") as show:
        result = run_tune(
            trace,
            capacity=capacity,
            us_per_gib=us_per_gib,
            candidates=candidates,
            goal=goal,
            threads=threads,
            allocator=allocator,
            progress=show,
        )
    if as_json:
        print_json({"trace": trace} | result.to_dict())
    else:
        print_rows(texts.rows_of_tuning(trace, result))
        if result.best:
            Console(highlight=False).print("\n" + result.best.code, markup=False, soft_wrap=True)
    if not result.best:
        raise typer.Exit(1)


@app.command(epilog=example("quarry separate gpt.pickle.gz --key call_site -o gpt.routes"))
def separate(
    trace: TraceFile,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", help="Write the routing table, for a pool to load."),
    ] = None,
    key: Annotated[str, typer.Option(help="size, call_site or call_site_and_size.")] = "size",
    temporary_events: Annotated[
        int, typer.Option(help="An allocation freed within these events is temporary.")
    ] = 1000,
    learn: Annotated[float, typer.Option(help="The share of the trace to learn from.")] = 0.5,
    strategy: Strategy = "fast",
    allocator: Allocator = "",
    as_json: AsJson = False,
) -> None:
    """Learn which allocations of a trace are temporary, and what pools of their own save."""
    from quarry.report import texts
    from quarry.separation import separate as run_separate

    with errors_shown(as_json), progress_of("separating") as show:
        result = run_separate(
            trace,
            key=key,
            temporary_events=temporary_events,
            learn=learn,
            strategy=strategy,
            allocator=allocator,
            progress=show,
        )
        if output:
            result.table.save(output)
    if as_json:
        print_json({"trace": trace, "output": output} | result.to_dict())
        return
    print_rows(texts.rows_of_separation(result) + ([("wrote", output)] if output else []))


@app.command(epilog=example("quarry plan gpt.pickle.gz -o gpt.plan"))
def plan(
    trace: TraceFile,
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="Write the plan, for a pool to load.")
    ] = None,
    alignment: Annotated[
        str, size_option("--alignment", text="Of all places: a power of two from 16 to 16384.")
    ] = "256",
    max_steps: Annotated[
        int, typer.Option(help="The work limit; a core does about 50 million steps in a second.")
    ] = 250_000_000,
    allocator: Allocator = "",
    as_json: AsJson = False,
) -> None:
    """Place the allocations of a trace in one range, for the program's next run."""
    from quarry.plans import make_plan
    from quarry.replays import replay as run_replay
    from quarry.report import texts

    with errors_shown(as_json), progress_of("planning") as show:
        made = make_plan(
            trace, alignment=alignment, max_steps=max_steps, allocator=allocator, progress=show
        )
        default = run_replay(trace, allocator=allocator, progress=show)
        if output:
            made.save(output)
    if as_json:
        values = made.to_dict() | {
            "excess_percent": texts.excess_percent(made.bytes, made.lower_bound),
            "default_pool_peak_reserved": default.pool.peak_reserved,
            "events": default.events,
        }
        print_json({"trace": trace, "output": output} | values)
        return
    show_problems(default.problems, default.problem_count)
    print_rows(texts.rows_of_plan(trace, made, default) + ([("wrote", output)] if output else []))


@app.command(epilog=example("quarry report gpt.pickle.gz -o gpt.html"))
def report(
    trace: TraceFile,
    output: Annotated[str, typer.Option("--output", "-o", help="The HTML file to write.")],
    strategy: Annotated[
        list[str] | None,
        typer.Option("--strategy", "-s", help="Replay in this pool, too; may be repeated."),
    ] = None,
    heuristic: Heuristic = "never",
    capacity: Annotated[
        str | None, size_option("--capacity", "-c", text="Limit on the replays' reserved memory.")
    ] = None,
    with_tuning: Annotated[
        bool,
        typer.Option("--tune", help="Add a chart of hundreds of settings, and replay the best."),
    ] = False,
    us_per_gib: UsPerGib = 100_000,
    png: Annotated[
        str | None, typer.Option(help="Also draw the charts for a paper (needs matplotlib).")
    ] = None,
    title: Annotated[str, typer.Option(help="The title; the file's name if empty.")] = "",
    by_event: Annotated[
        bool, typer.Option("--by-event", help="Number the events on the axis, without times.")
    ] = False,
    allocator: Allocator = "",
    as_json: AsJson = False,
) -> None:
    """Write a page with a trace's timeline, blocks by address, fragmentation and call sites."""
    from quarry.replays import replay as run_replay
    from quarry.report import write_report
    from quarry.traces import read_trace, select_allocator
    from quarry.tuning import tune as run_tune

    with errors_shown(as_json), progress_of("reading") as show:
        read = select_allocator(read_trace(trace, progress=show), allocator)
        common: dict[str, Any] = {"capacity": capacity, "allocator": "all", "max_samples": 1 << 14}
        replays = [
            run_replay(read, strategy=name, heuristic=heuristic, **common)
            for name in strategy or ["fast"]
        ]
        sweep = None
        if with_tuning:
            sweep = run_tune(
                read, allocator="all", capacity=capacity, us_per_gib=us_per_gib, progress=show
            )
            if sweep.best:
                options = sweep.best.replay_options
                replays.append(run_replay(read, **options, **common))
        content = write_report(
            read,
            output,
            replays=replays,
            sweep=sweep,
            title=title,
            png=png,
            by_event=by_event,
            step=show,
        )
    if as_json:
        print_json(
            {
                "output": output,
                "png": png,
                "events": len(read),
                "summary": dict(content.summary),
                "problems": content.problems,
            }
        )
        return
    show_problems(read.problems, read.problem_count)
    print_rows([("wrote", name) for name in (output, png) if name])


@app.command(epilog=example("quarry convert gpt.pickle.gz gpt.quarry"))
def convert(
    trace: TraceFile,
    output: Annotated[str, typer.Argument(metavar="OUTPUT", help="The file to write.")],
    target: Annotated[str, typer.Option("--to", help="quarry, or rmm: the log of RMM.")] = "quarry",
    as_json: AsJson = False,
) -> None:
    """Write a trace in Quarry's own format, which is small and fast to read, or in RMM's."""
    import os

    from quarry.traces import convert as run_convert

    with errors_shown(as_json), progress_of("converting") as show:
        if os.path.exists(output) and os.path.samefile(trace, output):
            raise OSError(f"{output}: the output is the input; choose another file")
        found = run_convert(trace, output, target=target, progress=show)
    size = os.path.getsize(output)
    if as_json:
        print_json({"trace": trace, "output": output, "bytes": size} | found)
        return
    show_problems(found["problems"], found["problem_count"])
    events, skipped = found["events"], found["skipped_events"]
    rows = [("wrote", f"{output}: {events:,} events, {format_size(size)}")]
    if skipped:
        rows.append(("skipped", f"{skipped:,} events that the format cannot hold"))
    print_rows(rows)


if __name__ == "__main__":
    main()
