#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Umbrella headers have what they say: follows their #include lines through include/quarry."""

import re
import unittest
from pathlib import Path

INCLUDE_FOLDER = Path(__file__).resolve().parents[2] / "include"
INCLUDE = re.compile(r'^\s*#\s*include\s*"(quarry/[^"]+)"', re.MULTILINE)

# Umbrella -> the headers that it must reach.
PROMISES = {
    "heap": ["device/heap*.hpp", "device/replace_malloc.hpp"],
    "coalescing": ["device/coalescing/*.hpp"],
    "containers": [
        f"device/{name}.hpp"
        for name in ("dynamic_graph", "graph_kernels", "hash_map", "id_set", "list", "string", "vector")
    ],
    "host": ["host/**/*.hpp"],
    "quarry": ["**/*.hpp"],
}
# What no umbrella has, and why.
APART = {
    "host/mpi_segment.hpp": "needs MPI",
    "host/resources/nvtx_ranges.hpp": "needs NVTX",
    "opencl/heap.hpp": "needs OpenCL",
    "opencl/heap_usage.hpp": "is part of opencl/heap.hpp",
}


def reached(header):
    """The headers of Quarry that one includes, itself among them."""
    found, left = set(), [header]
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += INCLUDE.findall((INCLUDE_FOLDER / name).read_text(encoding="utf-8"))
    return {name.removeprefix("quarry/") for name in found}


class Umbrellas(unittest.TestCase):
    def test_each_has_what_it_says(self):
        for umbrella, patterns in PROMISES.items():
            has = reached(f"quarry/{umbrella}.hpp")
            for pattern in patterns:
                files = sorted((INCLUDE_FOLDER / "quarry").glob(pattern))
                self.assertTrue(files, f"{umbrella}.hpp: no file is called {pattern}")
                for path in files:
                    name = path.relative_to(INCLUDE_FOLDER / "quarry").as_posix()
                    if name not in APART:
                        self.assertIn(name, has, f"{umbrella}.hpp does not include {name}")

    def test_none_has_what_needs_other_libraries(self):
        self.assertFalse(reached("quarry/quarry.hpp") & set(APART))
        for name in APART:
            self.assertTrue((INCLUDE_FOLDER / "quarry" / name).is_file(), name)

    def test_those_for_kernels_have_nothing_of_the_host(self):
        for umbrella in ("heap", "coalescing", "containers"):
            hosts = [name for name in reached(f"quarry/{umbrella}.hpp") if name.startswith("host/")]
            self.assertEqual(hosts, [], umbrella)


if __name__ == "__main__":
    unittest.main()
