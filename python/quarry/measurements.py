# SPDX-License-Identifier: Apache-2.0
"""What `quarry bench` measures. The loops are those of bench/, in the compiled module."""

import datetime
import os
import platform
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from quarry import _core
from quarry.errors import BadArgument, Error
from quarry.options import strategies_where
from quarry.sizes import format_size
from quarry.traces import Trace, record_bytes

LIVE = 1000  # allocations of a pool
MAX_SIZES = (4 << 10, 1 << 20)
POOLS = strategies_where(needs_plan=False)
REPLAYED = (*strategies_where(is_placement=True), "stitched")
PARTS = ("all", "pools", "recording", "replay")


@dataclass(frozen=True)
class Case:
    """A quantity to measure. `run` measures for some seconds, and returns the spread."""

    bench: str
    params: dict[str, Any]
    unit: str
    run: Callable[[float], dict[str, Any]]


def check_part(only: str, *, has_trace: bool) -> None:
    """Raises BadArgument for an unknown part, or one that lacks a trace or does not use it."""
    if only not in PARTS:
        raise BadArgument(f"bench: there is no part {only!r}; there are {', '.join(PARTS)}")
    if only == "replay" and not has_trace:
        raise BadArgument("bench: 'replay' needs a TRACE")
    if only in ("pools", "recording") and has_trace:
        raise BadArgument(
            f"bench: {only!r} does not use a TRACE; leave out TRACE, or measure 'all'"
        )


def cases(trace: Trace | None, only: str = "all") -> list[Case]:
    """Everything to measure on this machine; without a trace nothing of `replay`.

    Raises BadArgument, as `check_part` does.
    """
    check_part(only, has_trace=trace is not None)
    found = []
    if only in ("all", "pools"):
        devices = range(len(_core.cuda_devices()))
        found += [pool_case("host", None, name, size) for size in MAX_SIZES for name in POOLS]
        found += [
            pool_case(f"device {device}", device, name, size)
            for device in devices
            for size in MAX_SIZES
            for name in (*POOLS, "cuda-async")
        ]
    if only in ("all", "recording"):
        found += [record_case("file"), record_case("ring")]
    if only in ("all", "replay") and trace is not None:
        found += [replay_case(trace, strategy) for strategy in REPLAYED]
    return found


def pool_case(memory: str, device: int | None, pool: str, max_size: int) -> Case:
    options: dict[str, Any] = {"device": device, "live": LIVE, "max_size": max_size}
    params = {"pool": pool, "memory": memory, "live": LIVE, "max_size": max_size}
    return Case(
        "pool/pair", params, "ns", lambda time: _core.measure_pool(pool, seconds=time, **options)
    )


def record_case(target: str) -> Case:
    def run(seconds: float) -> dict[str, Any]:
        if target == "ring":
            return _core.measure_record(None, seconds=seconds)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "bench.quarry")
            return _core.measure_record(path, seconds=seconds)

    return Case("trace/record", {"target": target, "threads": 1}, "ns/event", run)


def replay_case(trace: Trace, strategy: str) -> Case:
    events = record_bytes(trace.events)
    params = {"trace": trace.path, "events": len(trace), "strategy": strategy}
    return Case(
        "trace/replay",
        params,
        "million events/s",
        lambda time: _core.measure_replay(events, strategy=strategy, seconds=time),
    )


def record_of(case: Case, seconds: float) -> dict[str, Any]:
    """Measures a case for about `seconds`, as a record of bench/results.

    If it fails, `value` is None and `params` has an `error`.
    """
    params, spread = case.params, None
    try:
        spread = case.run(seconds)
    except (Error, MemoryError) as failed:
        params = params | {"error": str(failed) or "not enough memory"}
    return {
        "bench": case.bench,
        "params": params,
        "value": spread and spread.pop("median"),
        "spread": spread,
        "unit": case.unit,
        "machine": os.environ.get("QUARRY_MACHINE") or machine(),
        "date": os.environ.get("QUARRY_DATE") or datetime.date.today().isoformat(),
        "commit": os.environ.get("QUARRY_COMMIT") or _core.version,
    }


def machine() -> str:
    """The names of the processor and of the first GPU."""
    name = platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            name = next(line.split(":")[1].strip() for line in lines if "model name" in line)
    except (OSError, StopIteration):
        pass
    return ", ".join([name, *(device.name for device in _core.cuda_devices()[:1])])


def text_of(bench: str, params: dict[str, Any]) -> str:
    """What is measured, in a few words."""
    if bench == "pool/pair":
        size = format_size(params["max_size"])
        return f"free and allocate, to {size}: {params['pool']}, {params['memory']} memory"
    if bench == "trace/record":
        return f"record an event: {params['target']}"
    return f"replay {params['events']:,} events: {params['strategy']}"
