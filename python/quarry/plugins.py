# SPDX-License-Identifier: Apache-2.0
"""The pools that serve PyTorch, CuPy, Numba and RMM: options, statistics and recording.

The process has one pool for each GPU, made when a framework first allocates there. All frameworks
that are switched on share it (quarry.torch, quarry.cupy, quarry.numba, quarry.rmm).
"""

import importlib
import os
import sys
from types import ModuleType

from quarry import _core
from quarry._core import StreamPoolCounts
from quarry.errors import BadArgument, BadState, ResourceFailed
from quarry.recording import Recorder, recorder_of_environment
from quarry.sizes import parse_size

__all__ = [
    "StreamPoolCounts",
    "audit",
    "configure",
    "counts",
    "last_error",
    "release",
    "start_recording",
    "stop_recording",
]

PathLike = str | os.PathLike[str]
_ALL_DEVICES = -1
_limits: dict[int, int | None] = {}  # by device
_joined: Recorder | None = None  # the recorder of `quarry record`, once the pools record to it


def configure(
    *,
    device: int | None = None,
    capacity: int | str | None = None,
    first_block: int | str = "64MiB",
    next_block: int | str = "8MiB",
    growth_percent: int = 4,
    grows_first: bool = False,
    is_tracked: bool = True,
) -> None:
    """Sets the options of the pool of GPU `device`, or of all GPUs, before its first allocation.

    `capacity` limits the bytes of the pool's blocks. `first_block` and `next_block` are the minimum
    sizes of its blocks, and `growth_percent` is a minimum relative to all blocks. Smaller blocks
    are allocated if the limit or the GPU has no room. With `grows_first` the pool allocates a block
    before it makes streams wait for each other. With `is_tracked` the registry knows each
    allocation. Raises BadState if the pool is in use.
    """
    limit = None if capacity is None else parse_size(capacity)
    number = _ALL_DEVICES if device is None else device
    _core.plugin_configure(
        number,
        first_block=parse_size(first_block),
        next_block=parse_size(next_block),
        growth_percent=growth_percent,
        max_bytes=limit,
        grows_first=grows_first,
        is_tracked=is_tracked,
    )
    _limits[number] = limit


def counts(device: int = 0) -> StreamPoolCounts:
    """What the pool of GPU `device` holds and has done. Zeros if there is no pool yet."""
    return _core.plugin_counts(device)


def audit(device: int = 0) -> list[str]:
    """A text for each violated invariant of the pool of GPU `device`; empty if there is none."""
    return _core.plugin_audit(device)


def release(device: int | None = None) -> None:
    """Waits for GPU `device`, and returns the blocks without allocations. None means all GPUs."""
    _core.plugin_release(_ALL_DEVICES if device is None else device)


def last_error() -> str:
    """The message of the last allocation that failed, or an empty text."""
    return _core.plugin_last_error()


def start_recording(path: PathLike, *, call_sites: bool = False) -> None:
    """Records all events of the pools into a file, which `quarry.read_trace` reads.

    With `call_sites` each allocation gets the line of Python code that made it (`quarry.Recorder`).
    Raises BadState during a recording. A process that exits normally completes the file. If the
    program runs under `quarry record`, the command's trace gets the same events.
    """
    _core.plugin_start_recording(os.fspath(path), call_sites)


def stop_recording() -> bool:
    """Completes the file of `start_recording`. Returns False if there is no such recording."""
    return _core.plugin_stop_recording()


def join_command() -> None:
    """Records the pools' events into the trace of `quarry record`, if the program runs under it."""
    global _joined
    recorder = recorder_of_environment()
    if recorder is not None and recorder is not _joined:
        _core.plugin_join_recording(recorder)
        _joined = recorder


def limit_of(device: int) -> int:
    """The limit of the pool of a GPU in bytes; 0 if there is none."""
    return _limits.get(device, _limits.get(_ALL_DEVICES)) or 0


def import_framework(module: str, name: str, user: str) -> ModuleType:
    """Imports a framework for `user`. Raises ResourceFailed if the plug-in cannot work."""
    if not _core.has_cuda:
        raise ResourceFailed(
            f"{user}: this build of Quarry has no CUDA; build it where nvcc is installed"
        )
    try:
        found = importlib.import_module(module)
    except ImportError as failed:
        raise ResourceFailed(
            f"{user}: {name} cannot be imported ({failed}); install it"
        ) from failed
    for package in (found, sys.modules[module.partition(".")[0]]):
        if package.__file__ is not None:
            _core.hide_code_of(os.path.dirname(package.__file__))
    return found


def check_device(user: str) -> None:
    """Raises ResourceFailed if there is no GPU."""
    if not _core.cuda_devices():
        raise ResourceFailed(f"{user}: there is no GPU, or no driver; see `quarry info`")


def prepare(
    user: str, record: PathLike | None, call_sites: bool, options: dict[str, object]
) -> None:
    """Applies the options of a `use` function."""
    if call_sites and record is None:
        raise BadArgument(f"{user}: call_sites needs a recording; also set record")
    check_device(user)
    if options:
        configure(**options)  # type: ignore[arg-type]
    if record is not None:
        start_recording(record, call_sites=call_sites)
    join_command()


def refuse_second_use(user: str) -> None:
    raise BadState(f"{user}: the plug-in is in use already; call it once in a process")
