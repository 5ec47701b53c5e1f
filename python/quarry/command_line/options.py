# SPDX-License-Identifier: Apache-2.0
"""Options and arguments that several commands share, each with its name, type and help."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from quarry import _core
from quarry.errors import BadArgument
from quarry.options import STRATEGIES, strategies_where


def size_option(*names: str, text: str) -> Any:
    return typer.Option(*names, metavar="SIZE", help=text + " In bytes, or as 512MiB or 2GB.")


def strategy_option(text: str) -> Any:
    return typer.Option("--strategy", "-s", help=text, callback=strategy_names)


def strategy_names(given: Any) -> Any:
    """The names in the table of one strategy, or of several; older names become today's."""
    try:
        if isinstance(given, str):
            return _core.strategy_named(given)
        return given and [_core.strategy_named(each) for each in given]
    except BadArgument as unknown:
        raise typer.BadParameter(str(unknown)) from None


def strategy_list(**wanted: bool) -> str:
    """The strategies, each with what it is."""
    return ", ".join(f"{name} ({STRATEGIES[name]['help']})" for name in strategies_where(**wanted))


def separate_option(text: str) -> Any:
    return typer.Option(
        "--separate",
        metavar="KEY",
        help=text + ": size, call_site, call_site_and_size, phase or phase_and_size.",
    )


def file_name(name: str | None) -> str | None:
    """Refuses an empty name, and `-`."""
    if name == "":
        raise typer.BadParameter("the name of the file is empty")
    if name == "-":
        raise typer.BadParameter("'-' names no file here; write ./- for a file of this name")
    return name


def trace_name(name: str | None) -> str | None:
    """As `file_name`, but `-` names the standard input."""
    return name if name == "-" else file_name(name)


def file_option(*names: str, text: str) -> Any:
    return typer.Option(*names, metavar="FILE", callback=file_name, help=text)


def file_argument(metavar: str, text: str) -> Any:
    return typer.Argument(metavar=metavar, callback=file_name, help=text)


def is_given(context: typer.Context, name: str) -> bool:
    """Whether the user gave a parameter, so that it must not be ignored."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


MAX_PRICE = 1e12  # microseconds

#: The options of a pool, their defaults, and what a strategy that uses them has.
POOL_OPTIONS: dict[str, tuple[Any, str]] = {
    "heuristic": ("never", "coalesces"),
    "first_block": ("0", "has_blocks"),
    "next_block": ("0", "has_blocks"),
    "growth": (4, "has_blocks"),
    "shrink_after": (0, "coalesces"),
}


def check_pool_options(strategies: Sequence[str], **values: Any) -> None:
    """Raises BadArgument for an option of `POOL_OPTIONS` that none of the strategies uses."""
    for name, value in values.items():
        default, ability = POOL_OPTIONS[name]
        if value != default and not any(STRATEGIES[each][ability] for each in strategies):
            names = " and ".join(dict.fromkeys(strategies))
            option = "--" + name.replace("_", "-")
            raise BadArgument(
                f"{option} {value} has no effect with the strategy {names}: leave it out, or "
                "choose another strategy"
            )


def price(value: float) -> float:
    """Refuses NaN, and prices whose sums could exceed what JSON can hold."""
    if not 0 <= value <= MAX_PRICE:
        raise typer.BadParameter(f"{value:g} is not from 0 to {MAX_PRICE:g} microseconds")
    return value


def price_option(text: str) -> Any:
    return typer.Option(callback=price, help=text)


TRACE_TEXT = "A trace in a format that [bold]quarry info[/bold] lists; - for the standard input."
TraceFile = Annotated[str, typer.Argument(metavar="TRACE", callback=trace_name, help=TRACE_TEXT)]
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
        "--allocator",
        help="Use only the events of this allocator, for example 'device 1'. all: one pool serves "
        "the allocations of all devices.",
    ),
]
Strategy = Annotated[
    str,
    strategy_option("How the pool finds memory: " + strategy_list() + "."),
]
Heuristic = Annotated[
    str,
    typer.Option(
        "--heuristic",
        "-H",
        help="When the pool replaces its empty blocks by one: "
        + "; ".join(f"{name} ({text})" if text else name for name, text in _core.heuristics.items())
        + ". Parts with + follow one of the others.",
    ),
]
Capacity = Annotated[
    str | None,
    size_option("--capacity", "-c", text="Limit on the reserved memory; no limit if left out."),
]
FirstBlock = Annotated[
    str, size_option("--first-block", text="Minimum size of the pool's first block; 0: 64 MiB.")
]
NextBlock = Annotated[
    str, size_option("--next-block", text="Minimum size of each later block; 0: 8 MiB.")
]
Growth = Annotated[
    int,
    typer.Option(
        "--growth",
        metavar="PERCENT",
        min=0,
        max=2**32 - 1,
        help="Minimum size of each later block, as a percentage of the reserved bytes. Umpire's "
        "pools have 0.",
    ),
]
ShrinkAfter = Annotated[
    int,
    typer.Option(
        "--shrink-after",
        metavar="FREES",
        min=0,
        max=2**63,
        help="After every FREES frees, return the blocks that the pool did not need during these "
        "frees; 0: never.",
    ),
]
UsPerAllocation = Annotated[
    float, price_option("Modelled time to allocate a block from the upstream, in microseconds.")
]
UsPerFree = Annotated[float, price_option("Modelled time to return a block, in microseconds.")]
UsPerGib = Annotated[
    float, price_option("The price of memory: microseconds of the upstream for a GiB at the peak.")
]


def position_option(name: str, text: str) -> Any:
    return typer.Option(
        name,
        metavar="POSITION",
        help=text + " A POSITION is an event's number, such as 12000, or a time since the first "
        "event with a unit (s, ms, us, ns), such as 1.5s.",
    )
