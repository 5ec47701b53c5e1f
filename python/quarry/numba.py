# SPDX-License-Identifier: Apache-2.0
"""Numba's CUDA arrays lie in Quarry's pools: `quarry.numba.use()`."""

import ctypes
from collections.abc import Callable
from typing import Any

from quarry import _core, plugins
from quarry._core import Framework
from quarry.errors import BadState, OutOfMemory
from quarry.plugins import PathLike, StreamPoolCounts, audit, counts, last_error, release

__all__ = ["StreamPoolCounts", "audit", "counts", "last_error", "release", "use"]

_CUDA_ERROR_OUT_OF_MEMORY = 2
_managers: list[Any] = []


def use(*, record: PathLike | None = None, call_sites: bool = False, **options: Any) -> None:
    """Makes Numba allocate device memory from Quarry's pools. Call it before Numba uses the GPU.

    Numba does not tell which stream will use an array. So if memory was freed since the last
    allocation, an allocation orders all streams: their later work comes after their earlier work.
    The program must order streams that do not wait for the default stream (non-blocking streams).
    `record`, `call_sites` and the other options are those of `quarry.torch.use`. An allocation that
    fails raises numba.cuda.cudadrv.driver.CudaAPIError, with CUDA's number for it. Raises BadState
    if Numba has used the GPU, and ResourceFailed without Numba, a GPU or CUDA.
    """
    cuda = plugins.import_framework("numba.cuda", "Numba (with numba-cuda)", "quarry.numba")
    if _managers:
        plugins.refuse_second_use("quarry.numba")
    if _has_context():
        raise BadState(
            "quarry.numba: Numba has used the GPU already; call use() before the first array or "
            "kernel on the GPU"
        )
    plugins.prepare("quarry.numba", record, call_sites, options)
    _managers.append(_make_manager())
    cuda.set_memory_manager(_managers[0])


def _has_context() -> bool:
    """Numba makes its memory manager together with the context of a GPU."""
    from numba.cuda.cudadrv import devices

    found = vars(devices.gpus).get("lst", [])
    return any(getattr(gpu._device, "primary_context", None) is not None for gpu in found)


def _pointer_to(address: int) -> Any:
    try:
        from cuda.bindings.driver import CUdeviceptr
    except ImportError:  # numba-cuda with its own bindings
        return ctypes.c_void_p(address)
    return CUdeviceptr(address)


def _make_manager() -> type:
    from numba.cuda import HostOnlyCUDAMemoryManager, MemoryPointer
    from numba.cuda.cudadrv import driver

    class Manager(HostOnlyCUDAMemoryManager):  # type: ignore[misc]
        """Numba's external memory manager; each context has one."""

        @property
        def interface_version(self) -> int:
            return 1

        def initialize(self) -> None:
            """Numba requires this function. The pool is made by its first allocation."""

        def memalloc(self, size: int) -> Any:
            try:
                memory = _core.PluginAllocation(Framework.NUMBA, size, self.context.device.id)
            except OutOfMemory as failed:
                raise driver.CudaAPIError(_CUDA_ERROR_OUT_OF_MEMORY, str(failed)) from failed
            address = memory.address
            self.allocations[address] = memory  # a reset of the context clears them
            return MemoryPointer(
                self.context,
                _pointer_to(address),
                size,
                finalizer=_make_finalizer(self.allocations, address),
            )

        def get_memory_info(self) -> Any:
            free, total = driver.driver.cuMemGetInfo()
            return driver.MemoryInfo(free=free, total=total)

        def get_ipc_handle(self, memory: Any) -> Any:
            raise NotImplementedError("quarry.numba: arrays cannot be shared between processes")

    return Manager


def _make_finalizer(allocations: dict[int, Any], address: int) -> Callable[[], None]:
    def free() -> None:
        allocations.pop(address, None)

    return free
