# SPDX-License-Identifier: Apache-2.0
"""An array program: prints checksums, time and peak memory.

usage: cupy_arrays.py ALLOCATOR [TRACE]      stock, quarry
"""

import json
import sys
import time

import cupy

allocator = sys.argv[1]
if allocator == "quarry":
    import quarry.cupy

    recording = {"record": sys.argv[2], "call_sites": True} if len(sys.argv) > 2 else {}
    quarry.cupy.use(**(recording or {"capacity": "4GiB"}))


def checksum(array) -> str:
    return float(cupy.asnumpy(array).astype("float64").sum()).hex()


def work(seed: int) -> list[str]:
    random = cupy.random.RandomState(seed)
    result = []
    a = random.standard_normal((1500, 1500))
    b = random.standard_normal((1500, 1500))
    result.append(checksum(a @ b))
    result.append(checksum(cupy.sort(a.ravel())[::7]))
    result.append(checksum(cupy.abs(cupy.fft.fft(a[:512, :512]))))
    result.append(checksum(cupy.linalg.solve(a[:300, :300] + 40 * cupy.eye(300), b[:300, :5])))
    streams = [cupy.cuda.Stream() for _ in range(3)]
    for number in range(30):
        with streams[number % 3] as stream:
            x = cupy.arange(10_000 * (number + 1), dtype=cupy.float64)
            y = cupy.cumsum(x * 2 - 1)
            result.append(checksum(y[:: number + 1]))
            stream.synchronize()
    del streams, stream, x, y  # memory of streams that are destroyed
    counted = cupy.unique(random.randint(0, 1000, 1_000_000), return_counts=True)
    result.append(checksum(counted[1] * counted[0]))
    empty = cupy.empty((0, 5))
    result.append(checksum(empty))
    return result


sums = work(1)
cupy.cuda.Device().synchronize()
start = time.perf_counter()
for round_number in range(5):
    sums += work(2 + round_number)
cupy.cuda.Device().synchronize()
seconds = (time.perf_counter() - start) / 5
result = {"sums": sums, "round_ms": 1e3 * seconds}
if allocator == "quarry":
    if len(sys.argv) <= 2:
        try:
            cupy.empty(8 << 30, dtype=cupy.uint8)
        except cupy.cuda.memory.OutOfMemoryError as failed:
            result["failure"] = [str(failed), str(failed.__cause__)]
        result["sum after"] = float(cupy.ones(1000).sum())
    counts = quarry.cupy.counts()
    result["peak_reserved"] = counts.peak_reserved
    result["audit"] = quarry.cupy.audit()
    result["counts"] = counts.to_dict()
    quarry.cupy.restore()
    cupy.ones(10)
    result["is restored"] = quarry.cupy.counts().allocations == counts.allocations
else:
    result["peak_reserved"] = cupy.get_default_memory_pool().total_bytes()
print(json.dumps(result))
