# SPDX-License-Identifier: Apache-2.0
"""Pools over host, pinned, managed and device memory."""

import ctypes
import math
import weakref
from typing import Any

import numpy as np
import numpy.typing as npt

from quarry import _core
from quarry.errors import BadArgument
from quarry.recording import Recorder, recorder_of_environment
from quarry.sizes import parse_size


class Pool(_core.Pool):
    """Takes blocks from a resource and hands out chunks of them. Threads may share it.

    `resource` is `host`, `device` (memory of GPU `device`), `pinned` or `managed`. `placement` is
    `fast_fit`, `segregated_fit`, `oldest_best_fit` or `lowest_best_fit`. `heuristic` says when the
    pool coalesces: `never`, `percent:N`, `blocks:N` or `cost:N`. Sizes may be texts such as
    `512MiB`. `recorder` records the calls; None means that of `quarry record`, if the program runs
    under this command. Allocations that are in use become invalid when the pool is destroyed.
    """

    def __init__(
        self,
        resource: str = "host",
        *,
        device: int = 0,
        placement: str = "fast_fit",
        heuristic: str = "never",
        first_block: int | str = 0,
        next_block: int | str = 0,
        growth_percent: int = 4,
        alignment: int | str = 16,
        max_bytes: int | str | None = None,
        shrink_after: int = 0,
        red_zone: int | str = 0,
        keeps_backtraces: bool = False,
        name: str = "",
        recorder: Recorder | None = None,
    ) -> None:
        super().__init__(
            resource,
            device=device,
            placement=placement,
            coalesce=heuristic,
            first_block=parse_size(first_block),
            next_block=parse_size(next_block),
            growth_percent=growth_percent,
            alignment=parse_size(alignment),
            max_bytes=None if max_bytes is None else parse_size(max_bytes),
            shrink_after=shrink_after,
            red_zone=parse_size(red_zone),
            keeps_backtraces=keeps_backtraces,
            name=name,
            recorder=recorder_of_environment() if recorder is None else recorder,
        )

    def allocate(self, size: int | str, alignment: int = 1) -> int:
        """Allocates `size` bytes and returns the address. Raises OutOfMemory."""
        return super().allocate(parse_size(size), alignment)

    def array(
        self, shape: int | tuple[int, ...], dtype: npt.DTypeLike = np.float64
    ) -> npt.NDArray[Any]:
        """A NumPy array without values in memory of the pool, for example in pinned memory.

        The memory is freed with the last array that uses it. Raises OutOfMemory, and BadArgument if
        the host cannot access the pool's memory.
        """
        dtype = np.dtype(dtype)
        count = math.prod(shape) if isinstance(shape, tuple) else shape
        if count == 0:
            return np.empty(shape, dtype)
        address = self.allocate(count * dtype.itemsize, dtype.alignment)
        found = _core.registry_find(address)
        if found and found.location.startswith("device"):
            self.deallocate(address)
            raise BadArgument(f"pool: the host cannot access memory of {found.location}")
        memory = (ctypes.c_char * (count * dtype.itemsize)).from_address(address)
        weakref.finalize(memory, self.deallocate, address)
        return np.frombuffer(memory, dtype, count).reshape(shape)
