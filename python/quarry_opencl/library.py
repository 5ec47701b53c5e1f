# SPDX-License-Identifier: Apache-2.0
"""The functions of libquarry_opencl.so (quarry/opencl/c_api.h and c_containers.h) and their errors."""

import ctypes
import ctypes.util
import functools
import os
from typing import Any


class Error(Exception):
    """The base of this package's exceptions."""


class OutOfMemory(Error, MemoryError):
    """A heap has no memory for the request."""


class BadArgument(Error, ValueError):
    """An argument is outside the range that the function accepts, or the heap is in another state."""


class OpenclFailed(Error, RuntimeError):
    """OpenCL failed, or a program does not build: the text has the build log."""


_OUT_OF_MEMORY, _BAD_ARGUMENT, _RESOURCE_FAILED, _NOT_IN_USE, _INTERNAL, _DESTROYED = range(1, 7)
_ERRORS = {
    _OUT_OF_MEMORY: OutOfMemory,
    _BAD_ARGUMENT: BadArgument,
    _RESOURCE_FAILED: OpenclFailed,
    _NOT_IN_USE: BadArgument,
    _DESTROYED: BadArgument,
}


@functools.cache
def library() -> ctypes.CDLL:
    """The shared library. Raises ImportError, with what to do, if it is not found."""
    path = os.environ.get("QUARRY_OPENCL_LIBRARY") or ctypes.util.find_library("quarry_opencl")
    if not path:
        raise ImportError(
            "quarry_opencl: libquarry_opencl.so is not in the linker's path. Build Quarry with -DBUILD_SHARED_LIBS=ON, "
            "and set QUARRY_OPENCL_LIBRARY to the file"
        )
    try:
        loaded = ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(f"quarry_opencl: cannot load {path!r} (QUARRY_OPENCL_LIBRARY names another file): {error}") from error
    loaded.quarry_last_error.restype = ctypes.c_char_p
    loaded.quarry_opencl_sources.restype = ctypes.c_char_p
    return loaded


def call(name: str, *arguments: Any) -> None:
    """Calls a function that returns a status. Raises the exception of the status, with the library's text."""
    check(getattr(library(), name)(*arguments))


def check(status: int) -> None:
    """Raises the exception of a status, with the library's text, unless it is QUARRY_OK."""
    if status:
        text = library().quarry_last_error().decode(errors="replace")
        raise _ERRORS.get(status, Error)(text)


def text_of(name: str, *arguments: Any) -> str:
    """What a function writes that takes a buffer, its capacity, and where the length goes."""
    length = ctypes.c_uint64()
    call(name, *arguments, None, ctypes.c_uint64(0), ctypes.byref(length))
    buffer = ctypes.create_string_buffer(length.value + 1)
    call(name, *arguments, buffer, ctypes.c_uint64(len(buffer)), None)
    return buffer.value.decode()
