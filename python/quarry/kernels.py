# SPDX-License-Identifier: Apache-2.0
"""Kernels that are written in Python allocate from a `quarry.Heap`.

A kernel takes the heap as two numbers (`words_of`). Numba's kernels call the functions of
`numba_functions`. CuPy's kernels are C++ and call `quarry_heap_malloc` and `quarry_heap_free`
(`cupy_module`).
"""

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from quarry import Heap
from quarry.errors import BadArgument, ResourceFailed

__all__ = ["CUPY_DECLARATIONS", "cupy_module", "numba_functions", "words_of"]

#: What `cupy_module` puts before the source of a kernel.
CUPY_DECLARATIONS = """
extern "C" __device__ void* quarry_heap_malloc(unsigned long long state, unsigned long long packed,
                                               unsigned long long size);
extern "C" __device__ void quarry_heap_free(unsigned long long state, unsigned long long packed,
                                            void* pointer);
#line 1
"""


def words_of(heap: Heap) -> tuple[np.uint64, np.uint64]:
    """The two numbers that stand for the heap in a kernel. Raises BadArgument for a CPU heap."""
    if heap.backend != "cuda":
        raise BadArgument(
            f"kernels: the heap's backend is {heap.backend}; "
            "kernels need a heap of the backend cuda"
        )
    state, packed = struct.unpack("<QQ", heap.ref)
    return np.uint64(state), np.uint64(packed)


def numba_functions() -> tuple[Any, Any]:
    """`malloc(state, packed, size) -> address` and `free(state, packed, address)` for `@cuda.jit`.

    The address is 0 if the heap has no memory.
    """
    from numba import cuda, types

    word = types.uint64
    path = str(_functions())
    malloc = cuda.declare_device("quarry_numba_malloc", word(word, word, word), link=[path])
    free = cuda.declare_device("quarry_numba_free", types.int32(word, word, word), link=[path])
    return malloc, free


def cupy_module(source: str, options: Sequence[str] = ()) -> Any:
    """Compiles the kernels in `source` with NVRTC, and links them with the heap's functions.

    Returns a module of CuPy: `get_function(name)` is the kernel of that name, which must be
    `extern "C"`. NVRTC's messages are in the exceptions of CuPy.
    """
    import cupy
    from cupy.cuda import compiler, function

    architecture = cupy.cuda.Device().compute_capability
    compiled, _ = compiler.compile_using_nvrtc(
        CUPY_DECLARATIONS + source, ("-rdc=true", *options), architecture, "kernels.cu"
    )
    linked = function.LinkState()
    linked.add_ptr_data(compiled.encode() if isinstance(compiled, str) else compiled, "kernels")
    linked.add_ptr_data(_functions().read_bytes(), "quarry")
    module = function.Module()
    module.load(linked.complete())
    return module


def _functions() -> Path:
    """The heap's functions in PTX, which the driver compiles for the GPU."""
    path = Path(__file__).with_name("heap_functions.ptx")
    if not path.exists():
        raise ResourceFailed(
            "kernels: this build of Quarry has no CUDA; build it where nvcc is installed"
        )
    return path
