# SPDX-License-Identifier: Apache-2.0
"""Plans: where each allocation of a repeating program lies in one range of memory."""

import os
from typing import Any

from quarry import _core
from quarry._core import Plan, load_plan
from quarry.sizes import parse_size
from quarry.traces import Progress, Trace, record_bytes, select_allocator

__all__ = ["Plan", "load_plan", "make_plan"]


def make_plan(
    trace: Trace | str | os.PathLike[str],
    *,
    alignment: int | str = 256,
    finds_period: bool = True,
    max_steps: int = 250_000_000,
    seed: int = 1,
    allocator: str = "",
    progress: Progress | None = None,
) -> Plan:
    """Places all allocations of a trace in one range, before the program runs again.

    Places are multiples of `alignment` bytes, a power of two from 16 to 16384. If the trace repeats
    a sequence of allocations and `finds_period` is true, the plan has one period, and the
    allocations before it. Sizes and lifetimes may differ from one repetition to the next, and other
    allocations may lie between repetitions: a place has the size and the lifetime that nine of ten
    repetitions do not exceed. Placing ends when the size exceeds the lower bound by 1/1000 at most,
    or after about `max_steps` comparisons of two allocations. Equal values of `seed` give equal
    plans. `progress` is called with the number of events read until now, also while the
    allocations are placed. `allocator` is that of `quarry.replay`. Raises BadArgument if an option
    is outside its range or the trace is too large, BadTrace if the file is not a trace, and
    ResourceFailed if it cannot be read.
    """
    options: dict[str, Any] = {
        "alignment": parse_size(alignment),
        "finds_period": finds_period,
        "max_steps": max_steps,
        "seed": seed,
        "progress": progress,
    }
    if isinstance(trace, Trace):
        return _core.plan_events(record_bytes(select_allocator(trace, allocator).events), **options)
    return _core.plan_file(os.fspath(trace), allocator, **options)
