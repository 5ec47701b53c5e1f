# SPDX-License-Identifier: Apache-2.0
"""Quarry: memory management for programs that run on GPUs.

Pools allocate host, pinned, managed and device memory. The registry finds the allocation of any
address. Traces of other allocators are read, replayed and drawn (docs/guide/python.md).
"""

from quarry import registry
from quarry._core import Heap, HeapStats
from quarry._core import version as __version__
from quarry.batches import TraceBatches, read_batches
from quarry.errors import (
    BadArgument,
    BadPlan,
    BadRange,
    BadState,
    BadTrace,
    Error,
    OutOfMemory,
    ResourceFailed,
    WasDestroyed,
)
from quarry.options import PLACEMENTS, STRATEGIES
from quarry.plans import Plan, load_plan, make_plan
from quarry.pools import PlannedPool, PlannedPoolCounts, Pool, PoolCounts, RoutedPool
from quarry.recording import Recorder
from quarry.replays import PlanUse, ReplayFailure, ReplayResult, replay
from quarry.separation import Route, RoutingTable, SeparateResult, TriedKey, learn_routes, separate
from quarry.sizes import format_size, parse_size
from quarry.traces import Kind, Trace, convert, make_trace, read_trace
from quarry.tuning import TuneOutcome, TuneResult, tune

__all__ = [
    "BadArgument",
    "BadPlan",
    "BadRange",
    "BadState",
    "BadTrace",
    "Error",
    "Heap",
    "HeapStats",
    "Kind",
    "OutOfMemory",
    "PLACEMENTS",
    "Plan",
    "PlanUse",
    "PlannedPool",
    "PlannedPoolCounts",
    "Pool",
    "PoolCounts",
    "Recorder",
    "ReplayFailure",
    "ReplayResult",
    "ResourceFailed",
    "Route",
    "RoutedPool",
    "RoutingTable",
    "STRATEGIES",
    "SeparateResult",
    "Trace",
    "TraceBatches",
    "TriedKey",
    "TuneOutcome",
    "TuneResult",
    "WasDestroyed",
    "__version__",
    "convert",
    "format_size",
    "learn_routes",
    "load_plan",
    "make_plan",
    "make_trace",
    "parse_size",
    "read_batches",
    "read_trace",
    "registry",
    "replay",
    "separate",
    "tune",
]
