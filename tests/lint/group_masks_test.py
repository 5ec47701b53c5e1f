#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks how the assembler treats masks of lane groups (quarry/simt/lane_group.hpp, active_lanes). Lanes of two groups
may execute an operation together. Then the code must test the masks of all these lanes: it tests their bitwise or
(REDUX.OR), or waits by WARPSYNC with a mask for each lane. Code that tests the mask of one lane is wrong. Needs nvcc
and nvdisasm."""

import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def program(name):
    """The path of a program of the CUDA toolkit: from PATH, from the toolkit, or from the wheel in .venv; else None."""
    folders = [None, "/usr/local/cuda/bin", *map(str, (ROOT / ".venv").glob("lib/python3*/site-packages/nvidia/*/bin"))]
    return next((found for folder in folders if (found := shutil.which(name, path=folder))), None)


NVCC = program("nvcc")
NVDISASM = program("nvdisasm")
COMMAND = "-std=c++20 -O3 -arch=sm_90 --expt-relaxed-constexpr --extended-lambda -cubin".split()


def tests_of_one_lane(listing):
    """The functions in which an operation tests one lane's mask: [(function, instruction)]."""
    found = []
    function = None
    source = {}  # register: the instruction that wrote it last
    for line in listing.splitlines():
        if section := re.match(r"\s*\.section\s+\.text\.(\w+)", line):
            function, source = section[1], {}
            continue
        instruction = re.search(r"\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)\s*(.*?)\s*;", line)
        if not instruction:
            continue
        operation, operands = instruction.groups()
        if operation == "BRA.DIV":
            tested = re.search(r"\bUR\d+", operands)
            if not source.get(tested[0], "").startswith(("REDUX.OR", "UMOV")):  # UMOV: a constant mask
                found.append((function, f"{source.get(tested[0])}; {operation} {operands}"))
        elif operation == "WARPSYNC" and source.get(operands, "").startswith("VOTE"):
            found.append((function, f"{source[operands]}; {operation} {operands}"))
        if target := re.match(r"(?:U?P\w+, )?(U?R\d+)\b", operands):
            source[target[1]] = f"{operation} {operands}"
    return found


@unittest.skipUnless(NVCC, "no nvcc")
@unittest.skipUnless(NVDISASM, "no nvdisasm: scripts/setup.sh python installs it where nvcc is")
class GroupMasks(unittest.TestCase):
    def listing(self, include, *options):
        """The machine code of group_masks.cu, compiled with the headers of the folder `include`."""
        with tempfile.TemporaryDirectory() as folder:
            command = [NVCC, *COMMAND, *options, "-I", include, ROOT / "tests/lint/group_masks.cu", "-o", f"{folder}/cubin"]
            done = subprocess.run(command, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            done = subprocess.run([NVDISASM, "-c", f"{folder}/cubin"], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_every_operation_tests_the_masks_of_all_lanes(self):
        listing = self.listing(ROOT / "include")
        self.assertEqual(len(re.findall(r"\.section\s+\.text\.", listing)), 16)
        self.assertIn("WARPSYNC", listing)
        self.assertEqual(tests_of_one_lane(listing), [])

    def test_a_plain_active_mask_is_detected(self):
        with tempfile.TemporaryDirectory() as folder:
            include = Path(folder) / "include"
            shutil.copytree(ROOT / "include", include)
            header = include / "quarry/simt/lane_group.hpp"
            text = header.read_text()
            self.assertIn("return __activemask() | own;", text)
            header.write_text(text.replace("return __activemask() | own;", "return __activemask();"))
            found = {function for function, _ in tests_of_one_lane(self.listing(include, "-DQUARRY_OPERATIONS_ALONE"))}
        self.assertGreater(len(found), 9, f"kernels with a mask that is tested for one lane: {found}")


if __name__ == "__main__":
    unittest.main()
