# SPDX-License-Identifier: Apache-2.0
"""The names of allocators in bench/results and in the tables and plots, in their order."""

import re

from .records import ROOT

# The placements of pools, in the order of the library's table.
HEADER = ROOT / "include/quarry/host/pools/placements.hpp"
PLACEMENTS = re.findall(r'named_placement<[^{]*>\{\s*"(\w+)"', HEADER.read_text(encoding="utf-8"))
DEFAULT_PLACEMENT = PLACEMENTS[0]

ALLOCATORS = {
    "quarry": "Quarry",
    "quarry-hardened": "Quarry, hardened",
    "cuda": "CUDA's malloc",
    "bump": "floor (one counter, never a free)",
}
# The ways of coalescing. The name of such an allocator is <upstream>+<way>.
WAYS = {
    "header-block": "header, block",
    "map-block": "map, block",
    "header-warp": "header, warp",
    "map-warp": "map, warp",
    "dynamic": "dynamic",
    "reserved": "reserved",
    "packed": "packed",
}
UPSTREAMS = ("quarry", "cuda")
NAMES = ALLOCATORS | {f"{u}+{way}": label for u in UPSTREAMS for way, label in WAYS.items()}
POOL_NAMES = {
    "quarry": f"**pool, {DEFAULT_PLACEMENT}**",
    "quarry-untracked": "the same, not tracked",
    "quarry-segregated-fit": "pool, segregated_fit",
    "quarry-best-fit": "pool, oldest_best_fit",
    "quarry-lowest-best-fit": "pool, lowest_best_fit",
    "quarry-stitched": "stitched pool, lowest_best_fit",
    "quarry-stitched-fast-fit": "stitched pool, fast_fit",
    "quarry-stream": "stream pool, a stream without work",
    "quarry-cuda-mr": "the same with a lock, as `cuda::mr` resource",
    "quarry-arenas": "**a pool for each thread** (`thread_arenas`)",
    "quarry-synchronized": "one pool with a lock (`synchronized_resource`)",
    "cudaMallocAsync": "cudaMallocAsync",
    "torch-2.11.0+cu130": "PyTorch 2.11, from C++",
    "cudaMalloc": "cudaMalloc",
    "libc": "C library's malloc",
    "libc-keeps": "malloc that keeps freed memory",
    "mimalloc": "mimalloc",
    "pmr-unsynchronized": "std::pmr pool",
    "pmr-up-to-1-MiB": "std::pmr pool up to 1 MiB",
}
STRATEGIES = {
    name: f"**pool, {name}** (the default)" if name == DEFAULT_PLACEMENT else f"pool, {name}"
    for name in PLACEMENTS
} | {
    "stitched-64-KiB": "stitched pool, lowest_best_fit, pages of 64 KiB",
    "stitched-2-MiB": "the same, pages of 2 MiB",
    "stitched-fast_fit-64-KiB": "stitched pool, fast_fit, pages of 64 KiB",
    "stitched-fast_fit-2-MiB": "the same, pages of 2 MiB",
}
OPENCL_NAMES = {
    "quarry": "Quarry",
    "quarry-reserve": "Quarry, reserve of each work-item",
    "quarry-none": "Quarry, 8 B",
    "quarry-low": "Quarry, 8 or 16 B",
    "quarry-high": "Quarry, 4 to 64 B",
    "ring": "ring (never frees)",
    "kma": "KMA",
    "kma-list": "KMA, ArrayList",
    "kma-cache": "KMA, keeps spare nodes",
    "kma-ring": "KMA's ring",
    "kma-none": "KMA, 8 B",
    "kma-low": "KMA, 8 or 16 B",
    "kma-high": "KMA, 4 to 64 B",
}


def heading(allocator):
    name = (OPENCL_NAMES | ALLOCATORS)[allocator].split(" (")[0]
    return f"**{name}**" if allocator == "quarry" else name
