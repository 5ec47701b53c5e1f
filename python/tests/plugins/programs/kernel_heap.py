# SPDX-License-Identifier: Apache-2.0
"""Kernels of Numba or CuPy allocate from a heap, and free.

usage: kernel_heap.py FRAMEWORK      numba, cupy
"""

import json
import sys

import numpy as np

import quarry
from quarry import kernels

THREADS = 1 << 16


def with_numba() -> np.ndarray:
    from numba import cuda

    malloc, free = kernels.numba_functions()

    @cuda.jit
    def take(state, packed, taken):
        index = cuda.grid(1)
        taken[index] = malloc(state, packed, np.uint64(16 + 8 * (index % 9)))

    @cuda.jit
    def give_back(state, packed, taken):
        free(state, packed, taken[cuda.grid(1)])

    taken = cuda.device_array(THREADS, np.uint64)
    take[THREADS // 256, 256](*words, taken)
    found = taken.copy_to_host()
    result["in use"] = heap.stats().allocations_in_use
    give_back[THREADS // 256, 256](*words, taken)
    cuda.synchronize()
    return found


def with_cupy() -> np.ndarray:
    import cupy

    module = kernels.cupy_module(
        """
        extern "C" __global__ void take(unsigned long long state, unsigned long long packed,
                                        unsigned long long* taken) {
          int const index = blockIdx.x * blockDim.x + threadIdx.x;
          int* const made = static_cast<int*>(
              quarry_heap_malloc(state, packed, 16 + 8 * (index % 9)));
          *made = index;
          taken[index] = reinterpret_cast<unsigned long long>(made);
        }
        extern "C" __global__ void give_back(unsigned long long state, unsigned long long packed,
                                             unsigned long long const* taken, int* wrong) {
          int const index = blockIdx.x * blockDim.x + threadIdx.x;
          int* const made = reinterpret_cast<int*>(taken[index]);
          if (*made != index) atomicAdd(wrong, 1);
          quarry_heap_free(state, packed, made);
        }
        """
    )
    taken, wrong = cupy.zeros(THREADS, cupy.uint64), cupy.zeros(1, cupy.int32)
    module.get_function("take")((THREADS // 256,), (256,), (*words, taken))
    result["in use"] = heap.stats().allocations_in_use
    module.get_function("give_back")((THREADS // 256,), (256,), (*words, taken, wrong))
    result["wrong"] = int(wrong[0])
    return taken.get()


result: dict[str, object] = {}
heap = quarry.Heap(64 << 20, backend="cuda")
words = kernels.words_of(heap)
found = with_numba() if sys.argv[1] == "numba" else with_cupy()
region = range(heap.region, heap.region + heap.region_bytes)
result["distinct"] = len({address for address in found.tolist() if address in region})
result["in use at the end"] = heap.stats().allocations_in_use
result["fault"] = heap.first_fault()
result["audit"] = heap.audit()
print(json.dumps(result))
