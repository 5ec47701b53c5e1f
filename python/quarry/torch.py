# SPDX-License-Identifier: Apache-2.0
"""PyTorch allocates GPU memory from Quarry's pools.

`quarry.torch.use()` replaces PyTorch's caching allocator in the whole process. `with
quarry.torch.pool():` keeps the caching allocator, which takes its segments from Quarry's pools.
"""

import contextlib
import ctypes
from collections.abc import Iterator
from typing import Any

from quarry import _core, plugins
from quarry.errors import BadState
from quarry.plugins import PathLike, StreamPoolCounts, audit, counts, last_error

__all__ = [
    "StreamPoolCounts",
    "audit",
    "counts",
    "is_in_use",
    "last_error",
    "pool",
    "release",
    "use",
]

# PyTorch must find them until the process ends.
_allocators: list[Any] = []
_segment_allocators: list[Any] = []
_idle_pools: dict[int, list[Any]] = {}  # by device


def use(*, record: PathLike | None = None, call_sites: bool = False, **options: Any) -> None:
    """Replaces PyTorch's allocator. Call it before PyTorch uses the GPU.

    `record` names a file for a trace of all allocations. With `call_sites` the trace has the line
    of Python code of each allocation. To find it, an allocation takes Python's lock, as it does for
    PyTorch's own history. So C++ code that allocates while it holds a mutex could wait forever, if
    a thread with Python's lock waits for that mutex. The other options are those of
    `quarry.plugins.configure`. An allocation that fails raises torch.OutOfMemoryError. Raises
    BadState if PyTorch has used the GPU, and ResourceFailed without PyTorch, a GPU or CUDA.
    """
    torch = plugins.import_framework("torch", "PyTorch", "quarry.torch")
    if _allocators:
        plugins.refuse_second_use("quarry.torch")
    if torch.cuda.is_initialized():
        raise BadState(
            "quarry.torch: PyTorch has used the GPU already; call use() before the first tensor on "
            "the GPU, or use quarry.torch.pool()"
        )
    plugins.prepare("quarry.torch", record, call_sites, options)
    allocator = _make_allocator(torch, "quarry_torch_allocate", "quarry_torch_deallocate")
    functions = ctypes.CDLL(_core.__file__)
    for setter, function in {
        "set_record_stream_fn": "quarry_torch_record_stream",
        "set_reset_fn": "quarry_torch_empty_cache",
        "set_begin_allocate_to_pool": "quarry_torch_refuse_pool",
    }.items():
        address = ctypes.cast(getattr(functions, function), ctypes.c_void_p).value
        getattr(allocator.allocator(), setter)(address)
    try:
        torch.cuda.memory.change_current_allocator(allocator)
    except RuntimeError as failed:
        raise BadState(f"quarry.torch: PyTorch refuses another allocator: {failed}") from failed
    finally:
        _allocators.append(allocator)


def is_in_use() -> bool:
    """Whether `use` replaced PyTorch's allocator in this process."""
    return bool(_allocators)


@contextlib.contextmanager
def pool(
    device: int | None = None, *, record: PathLike | None = None, **options: Any
) -> Iterator[Any]:
    """Allocations of the calling thread inside the `with` use Quarry's pool of GPU `device`.

    PyTorch's caching allocator stays in front: it takes segments of 2 MiB and more from the pool,
    and keeps them until `quarry.torch.release()`, even if memory runs out. PyTorch's statistics and
    CUDA graphs work. Yields a torch.cuda.MemPool, which no other thread uses meanwhile. None means
    the current GPU. `record` and the other options are those of `use`, without `call_sites`:
    segments have none.
    """
    torch = plugins.import_framework("torch", "PyTorch", "quarry.torch")
    plugins.prepare("quarry.torch", record, False, options)
    if not _segment_allocators:
        _segment_allocators.append(
            _make_allocator(
                torch, "quarry_torch_allocate_segment", "quarry_torch_deallocate_segment"
            )
        )
    number = torch.cuda.current_device() if device is None else device
    # Two threads cannot use one pool of PyTorch at the same time. PyTorch ends the process if a
    # pool is deleted while any other one is in use, so pools are kept for the next `with`.
    idle = _idle_pools.setdefault(number, [])
    try:
        memory_pool = idle.pop()
    except IndexError:
        with torch.cuda.device(number):
            memory_pool = torch.cuda.MemPool(_segment_allocators[0].allocator())
    try:
        with torch.cuda.use_mem_pool(memory_pool, device=number):
            yield memory_pool
    finally:
        idle.append(memory_pool)


def release(device: int | None = None) -> None:
    """Waits for GPU `device`, and returns memory that no tensor uses. None means all GPUs.

    Do not call it inside `pool()`, while another thread uses a pool of PyTorch, or while a CUDA
    graph is captured: PyTorch would end the process.
    """
    for number in list(_idle_pools) if device is None else [device]:
        _idle_pools.pop(number, None)  # PyTorch returns the segments of a pool that is deleted
    plugins.release(device)


def _make_allocator(torch: Any, allocate: str, deallocate: str) -> Any:
    _core.plugin_set_pytorch_error(torch.OutOfMemoryError)
    return torch.cuda.memory.CUDAPluggableAllocator(_core.__file__, allocate, deallocate)
