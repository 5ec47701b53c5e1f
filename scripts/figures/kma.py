# SPDX-License-Identifier: Apache-2.0
"""Figures of the original KMA, the seed of the OpenCL heap: {device: {series: {x: value}}}.

The public sources of 2014 were built and run outside this repository, with their types corrected so
that they compile: event times, work-groups of 64, medians of 5 runs. Each table has the number of a
figure of KMA's paper (GPGPU-7, 2014). `pocl` and `intel` are PoCL 3.1 and Intel's runtime 2026.2 on
two cores; `gpu` is an NVIDIA H200. The heaps have 127 or 512 superblocks of 4 KiB.
"""

MEASURED = "2026-11"
CONDITION = (
    "the sources of 2014, with types corrected, by programs outside this repository. It looks up "
    "nodes in a binary tree, where these kernels have a hash table"
)

# Nanoseconds for a pair of malloc and free by one work-item, by size. On the H200 the time contains
# writes to the allocation and their check.
PAIR = {
    "pocl": {"kma": {4: 82, 8: 68, 64: 70, 1024: 81}},
    "intel": {"kma": {4: 397, 8: 409, 64: 376, 1024: 418}},
    "gpu": {"kma": {8: 5430}},
}

# Milliseconds for 100 pairs of each work-item, by work-items. On the H200 as published (GPU_NOTE).
PAIRS = {
    "pocl": {
        "kma-none": {384: 6.9, 768: 16.7, 1536: 32.5, 3072: 64.6, 4608: 99.0},
        "kma-low": {384: 6.8, 768: 13.2, 1536: 26.4, 3072: 52.0, 4608: 79.9},
        "kma-high": {384: 6.4, 768: 12.7, 1536: 25.1, 3072: 50.9, 4608: 80.4},
    },
    "intel": {
        "kma-none": {384: 16.0, 768: 29.9, 1536: 60.8, 3072: 123.6, 4608: 185},
        "kma-low": {384: 14.2, 768: 28.3, 1536: 57.2, 3072: 117.6, 4608: 172},
        "kma-high": {384: 13.3, 768: 26.3, 1536: 53.5, 3072: 108.6, 4608: 159},
    },
    "gpu": {
        "kma-none": {1024: 36.5, 4608: 169, 16_384: 2067},
        "kma-low": {1024: 22.6, 4608: 79},
        "kma-high": {1024: 13.0, 4608: 57},
    },
}
# In three runs of 4,608 work-items on the H200.
CORRUPT_WORDS = {"kma-none": 25, "kma-low": 6, "kma-high": 22}
GPU_NOTE = (
    "Its times contain writes to the memory and their check. It corrupted {} words of live "
    "allocations at 4,608 work-items in three runs of 8 B, of 8 or 16 B, and of 4 to 64 B, and "
    "lost the context at 16,384. Its figures 6 and 7 were not measured."
).format(" / ".join(map(str, CORRUPT_WORDS.values())))

# Milliseconds for 10 allocations of 4 or 8 B of each work-item, by work-items.
ALLOCATE = {
    "pocl": {
        "kma": {384: 0.21, 1536: 0.73, 4608: 2.81, 8192: 3.99, 16_384: 7.82},
        "kma-list": {384: 0.17, 1536: 0.60, 4608: 1.27, 8192: 4.80, 16_384: 5.61},
        "kma-ring": {384: 0.04, 1536: 0.10, 4608: 0.16, 8192: 0.28, 16_384: 0.58},
    },
    "intel": {
        "kma": {384: 0.42, 1536: 1.67, 4608: 4.98, 8192: 9.10, 16_384: 18.2},
        "kma-list": {384: 0.15, 1536: 0.83, 4608: 2.30, 8192: 3.07, 16_384: 5.99},
        "kma-ring": {384: 0.09, 1536: 0.42, 4608: 1.33, 8192: 2.29, 16_384: 4.53},
    },
    "gpu": {},
}

# Milliseconds for a graph of 65,536 edges over 10,000 nodes, by work-items.
GRAPH = {
    "pocl": {
        "kma": {64: 23.7, 384: 21.0, 1536: 19.3, 3072: 20.0, 4608: 18.1},
        "kma-cache": {64: 19.7, 384: 19.8, 1536: 17.0, 3072: 18.1, 4608: 17.6},
        "kma-ring": {64: 17.2, 384: 16.8, 1536: 17.0, 3072: 17.5, 4608: 16.6},
    },
    "intel": {
        "kma": {64: 42.6, 384: 33.3, 1536: 30.2, 3072: 29.3, 4608: 28.8},
        "kma-cache": {64: 37.3, 384: 28.2, 1536: 32.6, 3072: 28.7, 4608: 28.5},
        "kma-ring": {64: 27.9, 384: 23.3, 1536: 24.0, 3072: 23.4, 4608: 22.9},
    },
    "gpu": {},
}

FIGURES = {"pair": PAIR, "pairs": PAIRS, "allocate": ALLOCATE, "graph": GRAPH}
