#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Umbrella headers stay light: counts the lines that the C++ compiler reads for each of them.

Lines are those of `-E` with GCC 12's library, where the standard headers are nine tenths of them.
Other libraries differ, so the test is skipped there.
"""

import re
import subprocess
import unittest
from pathlib import Path

INCLUDE_FOLDER = Path(__file__).resolve().parents[2] / "include"
# host.hpp needs std::string, vector, optional, unique_ptr, mutex and function, which are 80,000 lines.
LIMITS = {
    "heap": 45_000,
    "coalescing": 45_000,
    "containers": 57_000,
    "host": 104_000,
    "trace": 93_000,
    "quarry": 114_000,
}
# Standard headers that no header for kernels may include, directly or not.
HEAVY = {"algorithm", "chrono", "functional", "memory", "mutex", "iterator", "ranges", "regex", "sstream", "atomic"}


def preprocessed(umbrella):
    """The lines of the umbrella, and the names of the standard headers that it reads."""
    output = subprocess.run(
        ["g++", "-std=c++20", f"-I{INCLUDE_FOLDER}", "-E", "-x", "c++", "-"],
        input=f"#include <quarry/{umbrella}.hpp>\n",
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return output.count("\n"), set(re.findall(r'^# 1 "/usr/include/c\+\+/\d+/(\w+)"', output, re.MULTILINE))


def gcc_version():
    try:
        return subprocess.run(["g++", "-dumpversion"], capture_output=True, text=True, check=True).stdout.split(".")[0]
    except (OSError, subprocess.CalledProcessError):
        return ""


@unittest.skipUnless(gcc_version().strip() == "12", "counts the lines of GCC 12's library")
class HeaderSize(unittest.TestCase):
    def test_each_umbrella_stays_below_its_limit(self):
        for umbrella, limit in LIMITS.items():
            lines, _ = preprocessed(umbrella)
            self.assertLess(lines, limit, f"{umbrella}.hpp has become heavy: which standard header is new?")
            self.assertGreater(lines, limit * 0.9, f"{umbrella}.hpp has become lighter: lower its limit")

    def test_heap_and_coalescing_include_no_heavy_standard_header(self):
        for umbrella in ("heap", "coalescing"):
            self.assertEqual(preprocessed(umbrella)[1] & HEAVY, set(), umbrella)


if __name__ == "__main__":
    unittest.main()
