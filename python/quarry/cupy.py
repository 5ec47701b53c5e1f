# SPDX-License-Identifier: Apache-2.0
"""CuPy allocates GPU memory from Quarry's pools: `quarry.cupy.use()`."""

from typing import Any

from quarry import _core, plugins
from quarry._core import Framework
from quarry.errors import OutOfMemory
from quarry.plugins import PathLike, StreamPoolCounts, audit, counts, last_error, release

__all__ = [
    "StreamPoolCounts",
    "allocate",
    "audit",
    "counts",
    "last_error",
    "release",
    "restore",
    "use",
]

_replaced: list[Any] = []  # the allocator that `use` replaced


def use(*, record: PathLike | None = None, call_sites: bool = False, **options: Any) -> None:
    """Makes CuPy allocate from Quarry's pools, in the order of CuPy's current stream.

    Arrays that exist keep their memory. `record`, `call_sites` and the other options are those of
    `quarry.torch.use`. An allocation that fails raises cupy.cuda.memory.OutOfMemoryError. Raises
    ResourceFailed without CuPy, a GPU or CUDA.
    """
    cupy = plugins.import_framework("cupy", "CuPy", "quarry.cupy")
    if _replaced:
        plugins.refuse_second_use("quarry.cupy")
    plugins.prepare("quarry.cupy", record, call_sites, options)
    _replaced.append(cupy.cuda.get_allocator())
    cupy.cuda.set_allocator(allocate)


def restore() -> None:
    """Gives CuPy its former allocator. Arrays keep their memory. Does nothing without `use`."""
    if _replaced:
        import cupy

        cupy.cuda.set_allocator(_replaced.pop())


def allocate(size: int) -> Any:
    """The allocator for cupy.cuda.set_allocator and cupy.cuda.using_allocator.

    The memory is freed on the stream that was current here. As with CuPy's own pool, a program that
    uses an array on another stream must make the streams wait for each other.
    """
    # Not a CFunctionAllocator: it does not pass the stream, and does not check for nullptr.
    import cupy

    plugins.join_command()
    device = cupy.cuda.device.get_device_id()
    stream = cupy.cuda.get_current_stream()
    try:
        memory = _core.PluginAllocation(Framework.CUPY, size, device, stream.ptr)
    except OutOfMemory as failed:
        reserved = plugins.counts(device).reserved
        raise cupy.cuda.memory.OutOfMemoryError(
            size, reserved, plugins.limit_of(device)
        ) from failed
    # A tuple drops its last item first: the memory is freed while its stream exists.
    owner = (stream, memory)
    return cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(memory.address, size, owner, device), 0)
