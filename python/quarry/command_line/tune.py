# SPDX-License-Identifier: Apache-2.0
"""`quarry tune`: the settings of a pool that suit a trace."""

import shlex
from typing import Annotated, Any

import typer

from quarry import _core
from quarry.command_line.inputs import trace_input
from quarry.command_line.new_files import new_files
from quarry.command_line.options import (
    AcceptDamage,
    Allocator,
    AsJson,
    Capacity,
    TraceFile,
    UsPerAllocation,
    UsPerFree,
    UsPerGib,
    file_option,
)
from quarry.command_line.output import (
    DOES_NOT_FIT,
    errors_shown,
    finish,
    progress_of,
    rows_of_outputs,
    warn,
)
from quarry.names import quoted


class NoRoutes(Exception):
    """The best setting has one pool, so there is no table to write."""


def tune(
    trace: TraceFile,
    output: Annotated[
        str | None,
        file_option(
            "--output",
            "-o",
            text="Write the routing table of the best setting, if it has several pools.",
        ),
    ] = None,
    capacity: Capacity = None,
    us_per_allocation: UsPerAllocation = _core.default_us_per_allocation,
    us_per_free: UsPerFree = _core.default_us_per_free,
    us_per_gib: UsPerGib = _core.default_us_per_gib,
    candidates: Annotated[
        str, typer.Option(help="all, or Umpire's heuristics: published, 2022 or 2024.")
    ] = "all",
    goal: Annotated[
        str,
        typer.Option(
            help="front: the settings that no other one beats; best: only the one of least cost; "
            "all: replay every setting to the end."
        ),
    ] = "front",
    threads: Annotated[int, typer.Option(min=0, max=1024, help="0: one for each processor.")] = 0,
    allocator: Allocator = "",
    accept_damage: AcceptDamage = False,
    as_json: AsJson = False,
) -> None:
    """Replay a trace with hundreds of settings: the best ones, as options of quarry replay.

    Also prints the command that replays the best one, and the code that sets it.

    Exit status 0: a setting fits. 1: none fits. 2: bad options or input, or a damaged trace.
    """
    from quarry.report import texts
    from quarry.tuning import tune as run_tune

    written = None
    try:
        with (
            errors_shown(as_json),
            progress_of("tuning") as show,
            new_files(output, source=trace) as [table],
            trace_input(trace, show) as path,
        ):
            result = run_tune(
                path,
                capacity=capacity,
                us_per_allocation=us_per_allocation,
                us_per_free=us_per_free,
                us_per_gib=us_per_gib,
                candidates=candidates,
                goal=goal,
                threads=threads,
                allocator=allocator,
                progress=show,
            )
            best = result.best
            if output:
                if best is None or best.routing is None:
                    raise NoRoutes
                best.routing.save(table)
                written = output
    except NoRoutes:
        pass
    command = ""
    if best:
        words = ["quarry", "replay", trace, *shlex.split(best.command_options)]
        words += ["--capacity", capacity] if capacity else []
        words += ["--allocator", allocator] if allocator else []
        for name, value in (("us_per_allocation", us_per_allocation), ("us_per_free", us_per_free)):
            if value != getattr(_core, f"default_{name}"):
                words += ["--" + name.replace("_", "-"), f"{value:.17g}"]
        command = " ".join(quoted(str(word)) for word in words)

    def show_best() -> None:
        if best:
            print(f"\n{command}\n\n{best.code}", end="")
        if output and not written:
            warn("not written", f"{output}: the best setting has one pool, and so no routes")

    values: dict[str, Any] = {"trace": trace, "output": written, "command": command}
    finish(
        values | result.to_dict(),
        lambda: texts.rows_of_tuning(trace, result) + rows_of_outputs(written),
        as_json=as_json,
        accept_damage=accept_damage,
        after_rows=show_best,
        status=0 if best else DOES_NOT_FIT,
    )
