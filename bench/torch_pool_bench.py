#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's caching allocator in the loop of host_pool_bench.cpp: ns for a deallocation with an allocation after it.

The loop's own cost in Python is measured with a list of numbers in the place of the allocator, and taken off.
"""

import json
import os
import random
import statistics
import time

import torch

DRAWS = 1 << 16


def draw(live, least, most, is_log):
    rng = random.Random(1)
    sizes, victims = [], []
    for _ in range(DRAWS):
        victims.append(rng.randrange(live))
        share = rng.random()
        size = least * (most / least) ** share if is_log else least + share * (most - least + 1)
        sizes.append(min(most, int(size)))
    return sizes, victims


def pair_ns(live, least, most, is_log, give, take, rounds=9):
    sizes, victims = draw(live, least, most, is_log)
    held = [give(sizes[i % DRAWS]) for i in range(live)]
    times = []
    for round_number in range(rounds):
        begin = time.perf_counter_ns()
        for victim, size in zip(victims, sizes):
            take(held[victim])
            held[victim] = give(size)
        if round_number > 1:
            times.append((time.perf_counter_ns() - begin) / DRAWS)
    for one in held:
        take(one)
    return statistics.median(times)


def main():
    give, take = torch._C._cuda_cudaCachingAllocator_raw_alloc, torch._C._cuda_cudaCachingAllocator_raw_delete
    stream = torch.cuda.current_stream().cuda_stream
    for live, least, most, is_log in [
        (1000, 256, 256, False),
        (10000, 1, 4096, False),
        (10000, 1, 1 << 20, False),
        (300, 1024, 64 << 20, False),
        (10000, 1, 4096, True),
        (10000, 1, 1 << 20, True),
        (300, 1024, 64 << 20, True),
    ]:
        loop = pair_ns(live, least, most, is_log, lambda size: size, lambda one: None)
        all_of_it = pair_ns(live, least, most, is_log, lambda size: give(size, stream), take)
        print(
            json.dumps(
                {
                    "bench": "host/pool/pair",
                    "params": {
                        "allocator": "torch-" + torch.__version__,
                        "live": live,
                        "least": least,
                        "most": most,
                        "sizes": "log" if is_log else "uniform",
                        "statistic": "median",
                    },
                    "value": all_of_it - loop,
                    "unit": "ns",
                    "machine": os.environ.get("QUARRY_MACHINE", "unknown"),
                    "date": os.environ.get("QUARRY_DATE", time.strftime("%F")),
                    "commit": os.environ.get("QUARRY_COMMIT", "unknown"),
                }
            ),
            flush=True,
        )


if __name__ == "__main__":
    main()
