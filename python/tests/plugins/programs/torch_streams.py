# SPDX-License-Identifier: Apache-2.0
"""Uses tensors on several streams, and prints a checksum.

usage: torch_streams.py ALLOCATOR      stock, quarry, pool, or unrecorded: quarry without
record_stream; then the tensors are overwritten while another stream still reads them.
"""

import contextlib
import json
import sys

import torch

allocator = sys.argv[1]
scope: contextlib.AbstractContextManager = contextlib.nullcontext()
if allocator != "stock":
    import quarry.torch

    if allocator == "pool":
        scope = quarry.torch.pool()
    else:
        quarry.torch.use(first_block="1GiB")

ROUNDS, LENGTH = 20, 1 << 22
with scope:
    sums = []
    side = torch.cuda.Stream()
    for number in range(ROUNDS):
        data = torch.full((LENGTH,), float(number + 1), device="cuda")
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            torch.cuda._sleep(20_000_000)  # about 10 ms, so that the frees below come first
            sums.append(data.double().sum())
        if allocator != "unrecorded":
            data.record_stream(side)
        del data
        other = torch.full((LENGTH,), -1.0, device="cuda")  # would reuse the memory of `data`
        del other
    # A producer and a consumer that alternate, each on its own stream.
    streams = [torch.cuda.Stream() for _ in range(3)]
    value = torch.zeros(LENGTH, device="cuda")
    for stream in streams:
        stream.wait_stream(torch.cuda.current_stream())
    for number in range(60):
        stream = streams[number % 3]
        stream.wait_stream(streams[(number - 1) % 3])
        with torch.cuda.stream(stream):
            part = torch.randn(LENGTH, device="cuda", generator=None).mul_(0).add_(number)
            value.record_stream(stream)
            value = value * 0.5 + part
    torch.cuda.synchronize()
    result = {"sums": [float(x) for x in sums], "value": float(value.double().sum())}
    # Threads with streams of their own.
    import threading

    totals = [0.0] * 4

    def work(thread_number: int) -> None:
        with scope_of_thread(), torch.cuda.stream(torch.cuda.Stream()):
            total = torch.zeros((), dtype=torch.float64, device="cuda")
            for number in range(100):
                x = torch.full((1000 + 977 * number,), float(thread_number), device="cuda")
                total += x.double().sum()
            torch.cuda.current_stream().synchronize()
            totals[thread_number] = float(total)

    def scope_of_thread() -> contextlib.AbstractContextManager:
        return quarry.torch.pool() if allocator == "pool" else contextlib.nullcontext()

    threads = [threading.Thread(target=work, args=(thread_number,)) for thread_number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    result["totals"] = totals
if allocator != "stock":
    result["audit"] = quarry.torch.audit()
    result["counts"] = quarry.torch.counts().to_dict()
print(json.dumps(result))
