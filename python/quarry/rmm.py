# SPDX-License-Identifier: Apache-2.0
"""RMM allocates from Quarry's pools, or Quarry's pools take their blocks from RMM."""

from typing import Any

from quarry import _core, plugins
from quarry._core import Framework
from quarry.plugins import PathLike, StreamPoolCounts, audit, counts, last_error, release

__all__ = [
    "StreamPoolCounts",
    "audit",
    "counts",
    "last_error",
    "make_resource",
    "release",
    "use",
    "use_upstream",
]


def use(
    device: int = 0,
    *,
    record: PathLike | None = None,
    call_sites: bool = False,
    **options: Any,
) -> Any:
    """Makes Quarry's pool RMM's resource of GPU `device`, and returns that resource.

    `record`, `call_sites` and the other options are those of `quarry.torch.use`. An allocation that
    fails raises MemoryError. Raises ResourceFailed without RMM, a GPU or CUDA.
    """
    rmm = plugins.import_framework("rmm", "RMM", "quarry.rmm")
    plugins.prepare("quarry.rmm", record, call_sites, options)
    resource = make_resource(device)
    rmm.mr.set_per_device_resource(device, resource)
    return resource


def make_resource(device: int = 0) -> Any:
    """Quarry's pool of GPU `device` as a stream-ordered RMM resource.

    RMM's adaptors accept it. Each call passes through Python.
    """
    rmm = plugins.import_framework("rmm", "RMM", "quarry.rmm")
    plugins.join_command()

    def allocate(size: int, stream: Any) -> int:
        return _core.plugin_allocate(Framework.RMM, size, device, _handle_of(stream))

    def deallocate(address: int, size: int, stream: Any) -> None:
        _core.plugin_deallocate(Framework.RMM, address, device, _handle_of(stream))

    return rmm.mr.CallbackMemoryResource(allocate, deallocate)


def use_upstream(resource: Any, device: int = 0) -> None:
    """Makes Quarry's pool of GPU `device` take its blocks from an RMM resource.

    The resource must not allocate from that pool. Raises BadState if the pool is in use.
    """
    rmm = plugins.import_framework("rmm", "RMM", "quarry.rmm")
    plugins.check_device("quarry.rmm")
    stream = rmm.pylibrmm.stream.DEFAULT_STREAM

    def allocate(size: int) -> int:
        address: int = resource.allocate(size, stream)
        stream.synchronize()  # any stream may use the block
        return address

    def deallocate(address: int, size: int) -> None:
        resource.deallocate(address, size, stream)

    _core.plugin_set_upstream(device, allocate, deallocate)


def _handle_of(stream: Any) -> int:
    handle: int = stream.__cuda_stream__()[1]
    return handle
