# SPDX-License-Identifier: Apache-2.0
"""Heaps for OpenCL kernels, and their containers, in programs that use pyopencl.

Kernels allocate from a heap that lies in one buffer. The host makes the heap, passes its buffer to kernels, and reads
what they built (docs/guide/opencl_python.md).

This package has no compiled code. It loads the shared library libquarry_opencl.so, which `cmake --install` installs if
Quarry is configured with BUILD_SHARED_LIBS=ON. It looks for the file that the environment variable
QUARRY_OPENCL_LIBRARY names, and else for the library in the linker's path.
"""

from quarry_opencl.containers import ArrayList, Graph, Map, OrderedMap, Queue, Vector
from quarry_opencl.heap import Faults, Heap, LiveAllocation, MappedHeap, Usage, build, build_options, sources
from quarry_opencl.library import BadArgument, Error, OpenclFailed, OutOfMemory

__all__ = [
    "ArrayList",
    "BadArgument",
    "Error",
    "Faults",
    "Graph",
    "Heap",
    "LiveAllocation",
    "Map",
    "MappedHeap",
    "OpenclFailed",
    "OrderedMap",
    "OutOfMemory",
    "Queue",
    "Usage",
    "Vector",
    "build",
    "build_options",
    "sources",
]
