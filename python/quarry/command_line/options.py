# SPDX-License-Identifier: Apache-2.0
"""Options and arguments that several commands share, each with its name, type and help."""

import math
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from quarry.errors import BadArgument


def size_option(*names: str, text: str) -> Any:
    return typer.Option(*names, metavar="SIZE", help=text + " Examples: 512MiB, 2GB.")


def file_name(name: str | None) -> str | None:
    """Refuses an empty name, and one that is not UTF-8: the compiled module takes texts."""
    if name == "":
        raise typer.BadParameter("the name of the file is empty")
    try:
        (name or "").encode()
    except UnicodeEncodeError:
        raise typer.BadParameter(f"the name {name!r} is not UTF-8") from None
    return name


def file_option(*names: str, text: str) -> Any:
    return typer.Option(*names, metavar="FILE", callback=file_name, help=text)


def file_argument(metavar: str, text: str) -> Any:
    return typer.Argument(metavar=metavar, callback=file_name, help=text)


def is_given(context: typer.Context, name: str) -> bool:
    """Whether the user gave a parameter, so that it must not be ignored."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


#: The options of a pool, their defaults, and the strategies that do not use them.
POOL_OPTIONS = {
    "--heuristic": ("never", {"stitched", "streams", "direct"}),
    "--first-block": ("0", {"stitched", "direct"}),
    "--next-block": ("0", {"stitched", "direct"}),
}


def check_pool_options(
    strategies: Sequence[str], *, heuristic: str, first_block: str = "0", next_block: str = "0"
) -> None:
    """Raises BadArgument for an option that none of the strategies uses."""
    values = (heuristic, first_block, next_block)
    for (option, (default, unused)), value in zip(POOL_OPTIONS.items(), values, strict=True):
        if value != default and all(strategy in unused for strategy in strategies):
            names = " and ".join(dict.fromkeys(strategies))
            raise BadArgument(
                f"{option} {value} has no effect with the strategy {names}: leave it out, or "
                "choose another strategy"
            )


def finite(value: float) -> float:
    """Refuses infinity and NaN, which `min=0` alone lets through."""
    if not math.isfinite(value):
        raise typer.BadParameter(f"{value} is not a finite number")
    return value


def price_option(text: str) -> Any:
    return typer.Option(min=0, callback=finite, help=text)


TraceFile = Annotated[
    str, file_argument("TRACE", "A trace in a format that [bold]quarry info[/bold] lists.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
AcceptDamage = Annotated[
    bool,
    typer.Option(
        "--accept-damage",
        help="If parts of the trace are damaged and were skipped, do not end with status 2.",
    ),
]
Allocator = Annotated[
    str,
    typer.Option(
        "--allocator", help="Use the events of this allocator, for example 'device 1'; or all."
    ),
]
Strategy = Annotated[
    str,
    typer.Option(
        "--strategy",
        "-s",
        help="fast, lowest-best-fit, oldest-best-fit, stitched, streams, planned, direct: no pool.",
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
Capacity = Annotated[
    str | None, size_option("--capacity", "-c", text="Limit on the reserved memory.")
]
FirstBlock = Annotated[str, size_option("--first-block", text="Size of the pool's first block.")]
NextBlock = Annotated[
    str, size_option("--next-block", text="Minimum size of the pool's later blocks.")
]
UsPerAllocation = Annotated[
    float, price_option("Modelled time of an allocation from the upstream, in microseconds.")
]
UsPerFree = Annotated[float, price_option("Modelled time of a free, in microseconds.")]
UsPerGib = Annotated[
    float,
    price_option("The price of memory: microseconds of the upstream for a GiB at the peak."),
]
