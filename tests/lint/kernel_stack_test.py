#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the stack size of kernels that allocate. The assembler must know it, or a kernel overruns the
stack of the driver (quarry/simt/indirect_call.hpp). CUDA's default limit must suffice. Needs nvcc."""

import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DEFAULT_LIMIT = 1024  # bytes a thread: CUDA's cudaLimitStackSize
NVCC = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
COMMAND = "-std=c++20 -O3 -arch=sm_90 --expt-relaxed-constexpr -Xptxas -v -cubin".split()


def stacks(report):
    """{kernel: bytes of its stack, None if the assembler does not know}, from the output of ptxas -v."""
    found = {}
    kernel = None
    for line in report.splitlines():
        if entry := re.search(r"Compiling entry function '(\w+)'", line):
            kernel = entry[1]
        elif kernel and "Used " in line:
            size = re.search(r"(\d+) bytes cumulative stack size", line)
            found[kernel] = int(size[1]) if size else None
            kernel = None
    return found


@unittest.skipUnless(NVCC, "no nvcc")
class KernelStack(unittest.TestCase):
    def compiled(self, source):
        with tempfile.TemporaryDirectory() as folder:
            command = [NVCC, *COMMAND, "-I", ROOT / "include", source, "-o", f"{folder}/cubin"]
            done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return stacks(done.stdout + done.stderr)

    def test_default_limit_suffices_for_every_kernel(self):
        found = self.compiled(ROOT / "tests/lint/kernel_stack.cu")
        self.assertEqual(len(found), 4)
        for kernel, size in found.items():
            self.assertIsNotNone(size, f"{kernel}: a function of the heap calls itself, directly or indirectly")
            self.assertLessEqual(size, DEFAULT_LIMIT, kernel)

    def test_recursion_is_detected(self):
        with tempfile.NamedTemporaryFile("w", suffix=".cu") as source:
            source.write(
                "__device__ __noinline__ int f(int n) { return n < 2 ? n : f(n - 1) + f(n - 2); }\n"
                "__global__ void recurses(int* n) { *n = f(*n); }\n"
            )
            source.flush()
            self.assertEqual(list(self.compiled(source.name).values()), [None])


if __name__ == "__main__":
    unittest.main()
