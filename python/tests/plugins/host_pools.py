# SPDX-License-Identifier: Apache-2.0
"""Pools of the plug-ins over host memory: they need no GPU. Each has its own device number."""

import ctypes
import itertools
import os

from quarry import _core

_numbers = itertools.count(20)
_library = ctypes.CDLL(None)
_library.aligned_alloc.restype = ctypes.c_void_p
_library.aligned_alloc.argtypes = [ctypes.c_size_t, ctypes.c_size_t]
_library.free.argtypes = [ctypes.c_void_p]


def make_pool() -> int:
    """The device number of a new pool. The process has one pool for each number."""
    device = next(_numbers)
    _core.plugin_configure(
        device,
        first_block=1 << 20,
        next_block=1 << 20,
        growth_percent=0,
        max_bytes=8 << 20,
        grows_first=False,
        is_tracked=True,
    )
    _core.plugin_set_upstream(
        device,
        lambda size: _library.aligned_alloc(4096, size),
        lambda address, _: _library.free(address),
        is_host_memory=True,
    )
    return device


class TorchFunctions:
    """What PyTorch calls: with Python's lock (as a tensor's destructor does) or without it."""

    def __init__(self, *, with_lock: bool) -> None:
        loaded = (ctypes.PyDLL if with_lock else ctypes.CDLL)(os.fspath(_core.__file__))
        arguments = [ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
        for name in ("allocate", "allocate_segment"):
            function = getattr(loaded, f"quarry_torch_{name}")
            function.restype, function.argtypes = ctypes.c_void_p, arguments
            setattr(self, name, function)
        self.record_stream = loaded.quarry_torch_record_stream
        self.record_stream.restype = None
        self.record_stream.argtypes = [ctypes.c_void_p] * 2
        self.deallocate = loaded.quarry_torch_deallocate
        self.deallocate.restype = None
        self.deallocate.argtypes = [ctypes.c_void_p, *arguments]
