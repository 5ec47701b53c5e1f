# SPDX-License-Identifier: Apache-2.0
"""Pools over host, pinned, managed and device memory."""

import ctypes
import math
import os
import weakref
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from quarry import _core
from quarry._core import Plan, PlannedPoolCounts, PoolCounts, RoutingTable
from quarry.errors import BadArgument
from quarry.options import (
    DEFAULT_PLACEMENT,
    PoolOptions,
    options_without_checks,
    pool_options,
)
from quarry.plans import load_plan
from quarry.recording import Recorder, recorder_of_environment
from quarry.sizes import parse_size

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["PlannedPool", "PlannedPoolCounts", "Pool", "PoolCounts", "RoutedPool"]


class _HasMemory(Protocol):
    @property
    def location(self) -> str: ...
    def allocate(self, size: int | str) -> int: ...
    def deallocate(self, address: int) -> bool: ...


class _Arrays:
    """NumPy arrays in the memory of a pool."""

    def array(
        self: _HasMemory, shape: int | tuple[int, ...], dtype: npt.DTypeLike = np.float64
    ) -> npt.NDArray[Any]:
        """A NumPy array without values in memory of the pool, for example in pinned memory.

        The memory is freed with the last array that uses it. Raises OutOfMemory, and BadArgument if
        the host cannot access the pool's memory.
        """
        dtype = np.dtype(dtype)
        count = math.prod(shape) if isinstance(shape, tuple) else shape
        if count == 0:
            return np.empty(shape, dtype)
        if self.location.startswith("device"):
            raise BadArgument(f"pool: the host cannot access memory of {self.location}")
        address = self.allocate(count * dtype.itemsize)
        memory: Any = (ctypes.c_char * (count * dtype.itemsize)).from_address(address)
        weakref.finalize(memory, self.deallocate, address)
        array: npt.NDArray[Any] = np.frombuffer(memory, dtype, count)
        return array.reshape(shape)


def _recorder(given: Recorder | None) -> Recorder | None:
    return recorder_of_environment() if given is None else given


class Pool(_Arrays, _core.Pool):
    """Takes blocks from a resource and hands out chunks of them. Threads may share it.

    `resource` is `host`, `device` (memory of GPU `device`), `pinned` or `managed`. `placement` is a
    name of `quarry.PLACEMENTS`. `recorder` records the calls; None means that of `quarry record`,
    if the program runs under this command. The pool keeps `red_zone` bytes after each allocation,
    which detect overruns in memory that the host can access. With `keeps_backtraces`, leak reports
    list the callers of each allocation.

    The options, which `RoutedPool` and `PlannedPool` share (sizes may be texts such as `512MiB`):
    `heuristic` says when the pool coalesces: `never` (the default), `percent:N`, `blocks:N` or
    `cost:N`, each followed by any of `+hwm` and `+cbg`. `first_block` is the minimum size of a
    block while the pool has none, and `next_block` that of later ones; 0, the default, means 64 MiB
    and 8 MiB. `growth_percent`, 4 by default, is the minimum size of later blocks relative to all
    blocks. Addresses are multiples of `alignment`, 16 by default. `max_bytes` limits the bytes of
    all blocks. Every `shrink_after` frees, the pool returns unused blocks beyond the peak since
    then; 0, the default, means never. `name` is that in reports.

    Allocations that are in use become invalid when the pool is destroyed. Raises BadArgument for an
    unknown name or a bad option, TypeError for an unknown option, and ResourceFailed without CUDA.
    """

    def __init__(
        self,
        resource: str = "host",
        *,
        device: int = 0,
        placement: str = DEFAULT_PLACEMENT,
        red_zone: int | str = 0,
        keeps_backtraces: bool = False,
        recorder: Recorder | None = None,
        **options: "Unpack[PoolOptions]",
    ) -> None:
        super().__init__(
            resource,
            pool_options(red_zone=red_zone, keeps_backtraces=keeps_backtraces, **options),
            device=device,
            placement=placement,
            recorder=_recorder(recorder),
        )

    def allocate(self, size: int | str, alignment: int = 1) -> int:
        """Allocates `size` bytes and returns the address. Raises OutOfMemory.

        The address is a multiple of `alignment`, a power of two, and of the pool's alignment.
        Raises BadArgument for another alignment.
        """
        return super().allocate(parse_size(size), alignment)


class RoutedPool(_Arrays, _core.RoutedPool):
    """Several pools over one resource. A routing table chooses the pool of each allocation, so that
    temporary and permanent allocations share no blocks. Threads may share it.

    `table` is a `RoutingTable`, for example that of `quarry.separate`, or the path of a saved one.
    The pools share the limit `max_bytes`. If one of them gets no memory, the others return their
    unused blocks first. The other options are those of `Pool`, and each pool has them. Raises
    BadArgument, and ResourceFailed if the file cannot be read.
    """

    def __init__(
        self,
        table: RoutingTable | str | os.PathLike[str],
        resource: str = "host",
        *,
        device: int = 0,
        placement: str = DEFAULT_PLACEMENT,
        recorder: Recorder | None = None,
        **options: "Unpack[PoolOptions]",
    ) -> None:
        super().__init__(
            resource,
            table if isinstance(table, RoutingTable) else RoutingTable.load(table),
            options_without_checks(**options),
            device=device,
            placement=placement,
            recorder=_recorder(recorder),
        )

    def allocate(self, size: int | str, call_site: str = "") -> int:
        """Allocates `size` bytes from the pool that the table names for the size and `call_site`.

        Returns the address. Raises OutOfMemory.
        """
        return super().allocate(parse_size(size), call_site)


class PlannedPool(_Arrays, _core.PlannedPool):
    """Serves a program from the plan of an earlier run, and unplanned requests from a pool.

    `plan` is that of `quarry.make_plan`, or the path of a saved one. The pool takes one block of
    the plan's size when it is made. A request that matches the plan gets its place, if no
    allocation in use overlaps the place. `lookahead` is how many requests of the plan are searched
    for a match after a deviation. The other options are those of the pool for unplanned requests;
    `max_bytes` limits both together. Threads may share the pool.

    Raises BadArgument for a bad option, OutOfMemory if the plan exceeds `max_bytes`, and BadPlan
    for a damaged file.
    """

    def __init__(
        self,
        plan: Plan | str | os.PathLike[str],
        resource: str = "host",
        *,
        device: int = 0,
        lookahead: int = 64,
        recorder: Recorder | None = None,
        **options: "Unpack[PoolOptions]",
    ) -> None:
        super().__init__(
            resource,
            plan if isinstance(plan, Plan) else load_plan(plan),
            options_without_checks(**options),
            device=device,
            lookahead=lookahead,
            recorder=_recorder(recorder),
        )

    def allocate(self, size: int | str, alignment: int = 1) -> int:
        """Allocates `size` bytes and returns the address. Raises OutOfMemory.

        The address is a multiple of `alignment`, a power of two. Raises BadArgument for another
        alignment.
        """
        return super().allocate(parse_size(size), alignment)
