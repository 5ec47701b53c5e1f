# SPDX-License-Identifier: Apache-2.0
"""Kernels that Numba compiles, on several streams: prints checksums and time.

usage: numba_kernels.py ALLOCATOR [TRACE]      stock, quarry
"""

import json
import sys
import time

import numpy
from numba import cuda

allocator = sys.argv[1]
result: dict[str, object] = {}
if allocator == "quarry":
    import quarry
    import quarry.numba

    recording = {"record": sys.argv[2], "call_sites": True} if len(sys.argv) > 2 else {}
    quarry.numba.use(**(recording or {"capacity": "2GiB"}))


@cuda.jit
def scale(values, factor):
    for index in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        values[index] = values[index] * factor + index


@cuda.jit
def wait_then_copy(source, target, rounds):
    """Reads `source` late: other memory in its place would show in `target`."""
    value = 0.0
    for _ in range(rounds):
        value += 1e-30
        cuda.syncthreads()
    for index in range(cuda.grid(1), source.size, cuda.gridsize(1)):
        target[index] = source[index] + value * 0


@cuda.jit
def total(values, out):
    shared = cuda.shared.array(256, dtype=numpy.float64)
    lane = cuda.threadIdx.x
    part = 0.0
    for index in range(lane, values.size, 256):
        part += values[index]
    shared[lane] = part
    cuda.syncthreads()
    width = 128
    while width > 0:
        if lane < width:
            shared[lane] += shared[lane + width]
        cuda.syncthreads()
        width //= 2
    if lane == 0:
        out[0] = shared[0]


def reduce(values, stream=0) -> float:
    out = cuda.device_array(1, numpy.float64, stream=stream)
    total[1, 256, stream](values, out)
    return float(out.copy_to_host(stream=stream)[0])


sums = []
a, b = cuda.stream(), cuda.stream()
target = cuda.device_array(1 << 20, numpy.float64)
for number in range(10):
    source = cuda.to_device(numpy.full(1 << 20, float(number)))
    wait_then_copy[4, 256, a](source, target, 2_000_000)
    del source
    other = cuda.device_array(1 << 20, numpy.float64)  # would reuse the memory of `source`
    scale[64, 256, b](other, 0.0)
    b.synchronize()
    sums.append(reduce(target, a).hex())
    del other
start = time.perf_counter()
for number in range(200):
    values = cuda.to_device(numpy.arange(1000 + 37 * number, dtype=numpy.float64))
    scale[32, 128](values, 0.5)
    sums.append(reduce(values).hex())
result["loop_ms"] = 1e3 * (time.perf_counter() - start)
result["sums"] = sums
if allocator == "quarry":
    if len(sys.argv) <= 2:
        try:
            cuda.device_array(4 << 30, numpy.uint8)
        except cuda.cudadrv.driver.CudaAPIError as failed:
            result["failure"] = [failed.code, str(failed)]
        result["after"] = reduce(cuda.to_device(numpy.ones(1000)))
    free, whole = cuda.current_context().get_memory_info()
    result["has memory info"] = 0 < free <= whole
    try:
        quarry.numba.use()
    except quarry.BadState as failed:
        result["second"] = str(failed)
    counts = quarry.numba.counts()
    result["audit"] = quarry.numba.audit()
    result["counts"] = counts.to_dict()
print(json.dumps(result))
