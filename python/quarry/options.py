# SPDX-License-Identifier: Apache-2.0
"""The options that all pools share, and the tables of placements and strategies."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypedDict

from quarry import _core
from quarry.sizes import exact_size, parse_size

if TYPE_CHECKING:
    from typing_extensions import Unpack


PLACEMENTS: dict[str, str] = _core.placements  # with what they are, in a few words
DEFAULT_PLACEMENT = next(iter(PLACEMENTS))
STRATEGIES: dict[str, dict[str, Any]] = _core.strategies


def strategies_where(**wanted: bool) -> tuple[str, ...]:
    """The strategies whose row of the table says so, for example `needs_plan=True`."""
    return tuple(
        name
        for name, row in STRATEGIES.items()
        if all(row[key] is value for key, value in wanted.items())
    )


PLANNED = strategies_where(needs_plan=True)


class PoolOptions(TypedDict, total=False):
    """The options of `quarry.Pool`, `RoutedPool` and `PlannedPool`. `Pool` documents them."""

    heuristic: str
    first_block: int | str
    next_block: int | str
    growth_percent: int
    alignment: int | str
    max_bytes: int | str | None
    shrink_after: int
    name: str


def pool_options(
    *,
    heuristic: str = "never",
    first_block: int | str = 0,
    next_block: int | str = 0,
    growth_percent: int = 4,
    alignment: int | str = 16,
    max_bytes: int | str | None = None,
    shrink_after: int = 0,
    name: str = "",
    red_zone: int | str = 0,
    keeps_backtraces: bool = False,
) -> _core.PoolOptions:
    """The options of a pool for the compiled module. Sizes are bytes, or texts such as `512MiB`."""
    return _core.PoolOptions(
        heuristic=heuristic,
        first_block=parse_size(first_block),
        next_block=parse_size(next_block),
        growth_percent=growth_percent,
        alignment=parse_size(alignment),
        max_bytes=None if max_bytes is None else parse_size(max_bytes),
        shrink_after=shrink_after,
        name=name,
        red_zone=parse_size(red_zone),
        keeps_backtraces=keeps_backtraces,
    )


def options_without_checks(**options: "Unpack[PoolOptions]") -> _core.PoolOptions:
    """`pool_options` for pools that have neither red zones nor backtraces."""
    return pool_options(red_zone=0, keeps_backtraces=False, **options)


def words_of_setting(setting: Mapping[str, Any]) -> list[str]:
    """The options of `quarry replay` for the arguments of `quarry.replay` that say what the pool
    is. Leaves out those with their default, but not the strategy."""
    words = ["--strategy", setting["strategy"]]
    if setting["heuristic"] != "never":
        words += ["--heuristic", setting["heuristic"]]
    for name in ("first_block", "next_block"):
        if size := setting[name]:
            words += ["--" + name.replace("_", "-"), exact_size(size)]
    if setting["growth_percent"] != 4:
        words += ["--growth", str(setting["growth_percent"])]
    if setting["shrink_after"]:
        words += ["--shrink-after", str(setting["shrink_after"])]
    return words
