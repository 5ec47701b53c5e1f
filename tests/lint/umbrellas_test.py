#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the contents of umbrella headers: follows their #include lines through include/quarry."""

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
    "trace": ["trace/*.hpp"],
    "quarry": ["**/*.hpp"],
}
# Headers that no umbrella includes, and the reason.
EXCLUDED = {
    "host/c_extension.hpp": "is for libraries with C functions of their own",
    "host/mpi_segment.hpp": "needs MPI",
    "host/resources/nvtx_ranges.hpp": "needs NVTX",
    "opencl/heap.hpp": "needs OpenCL",
    "opencl/live_allocation.hpp": "is part of opencl/heap.hpp",
    "opencl/heap_usage.hpp": "is part of opencl/heap.hpp",
    "opencl/program.hpp": "needs OpenCL",
    "opencl/on_host.hpp": "needs the OpenCL C sources, which quarry::opencl adds",
    "opencl/csr.hpp": "needs opencl/on_host.hpp",
    **{
        path.relative_to(INCLUDE_FOLDER / "quarry").as_posix(): "needs quarry::trace"
        for path in [
            *INCLUDE_FOLDER.glob("quarry/trace/*.hpp"),
            INCLUDE_FOLDER / "quarry/trace.hpp",
            INCLUDE_FOLDER / "quarry/heap_trace.hpp",
        ]
    },
}


def reached(header):
    """The headers of Quarry that a header includes, and the header itself."""
    found, pending = set(), [header]
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending += INCLUDE.findall((INCLUDE_FOLDER / name).read_text(encoding="utf-8"))
    return {name.removeprefix("quarry/") for name in found}


class Umbrellas(unittest.TestCase):
    def test_each_umbrella_includes_its_headers(self):
        for umbrella, patterns in PROMISES.items():
            has = reached(f"quarry/{umbrella}.hpp")
            for pattern in patterns:
                files = sorted((INCLUDE_FOLDER / "quarry").glob(pattern))
                self.assertTrue(files, f"{umbrella}.hpp: no file is called {pattern}")
                for path in files:
                    name = path.relative_to(INCLUDE_FOLDER / "quarry").as_posix()
                    if "detail" not in path.parts and (name not in EXCLUDED or umbrella == "trace"):
                        self.assertIn(name, has, f"{umbrella}.hpp does not include {name}")

    def test_no_umbrella_names_a_header_that_only_the_library_includes(self):
        for path in sorted((INCLUDE_FOLDER / "quarry").glob("*.hpp")):
            named = INCLUDE.findall(path.read_text(encoding="utf-8"))
            self.assertEqual([name for name in named if "/detail/" in name], [], path.name)

    def test_public_headers_have_something_for_users(self):
        """A header with `detail` alone belongs into a folder `detail`, and a header there has nothing else."""
        for path in sorted((INCLUDE_FOLDER / "quarry").rglob("*.hpp")):
            names = set(re.findall(r"^namespace quarry::inline QUARRY_ABI(::\w+)? {", path.read_text(encoding="utf-8"), re.MULTILINE))
            if names:
                is_detail = names == {"::detail"}
                self.assertEqual(is_detail, path.parent.name == "detail", path)

    def test_no_umbrella_includes_headers_that_need_other_libraries(self):
        self.assertFalse(reached("quarry/quarry.hpp") & set(EXCLUDED))
        for name in EXCLUDED:
            self.assertTrue((INCLUDE_FOLDER / "quarry" / name).is_file(), name)

    def test_umbrellas_for_kernels_include_no_host_header(self):
        for umbrella in ("heap", "coalescing", "containers"):
            hosts = [name for name in reached(f"quarry/{umbrella}.hpp") if name.startswith("host/")]
            self.assertEqual(hosts, [], umbrella)


if __name__ == "__main__":
    unittest.main()
