#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that scripts/oclgrind_reports.py explains the races that comments mark as handovers, and no others."""

import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import oclgrind_reports  # noqa: E402
from oclgrind_reports import ATOMICS, Place, Report, is_handover, program_of, role_of  # noqa: E402

RACE = ["Read-write data race at global memory address 0x2000"]


def is_explained(first, second, lines=RACE):
    """Whether a race of two (source, role) is a handover."""
    return is_handover(Report(lines, "", [Place(source, "", role) for source, role in (first, second)]))


class Roles(unittest.TestCase):
    def test_stand_at_the_end_of_the_line_or_in_the_line_above(self):
        lines = ["*at = 1u;  // handover: owner", "*at = 2u;", "  // handover: reader", "  return *at;", "return 1u;"]
        self.assertEqual([role_of(lines, number) for number in (1, 2, 4, 5)], ["owner", "", "reader", ""])

    def test_each_comment_in_the_sources_names_a_role(self):
        marked = 0
        for pattern in ("opencl/*.cl", "tests/opencl/*.cpp"):
            for path in ROOT.glob(pattern):
                for line in path.read_text(encoding="utf-8").splitlines():
                    if "// handover" in line:
                        marked += 1
                        self.assertTrue(oclgrind_reports.ROLE.search(line), f"{path.name}: {line.strip()}")
        self.assertGreater(marked, 20)

    def test_a_kernel_name_of_two_programs_explains_nothing(self):
        # A report does not say which one of the programs its line belongs to.
        program = 'R"opencl(\n__kernel void twice(__global uint* at) {\n  *at = 1u;  // handover: owner\n}\n)opencl"'
        with tempfile.TemporaryDirectory() as folder:
            tests = Path(folder) / "tests/opencl"
            tests.mkdir(parents=True)
            (tests / "one_test.cpp").write_text(program)
            self.assertEqual(role_of(program_of("twice", Path(folder)), 3), "owner")
            (tests / "another_test.cpp").write_text(program)
            self.assertEqual(program_of("twice", Path(folder)), [])


class Races(unittest.TestCase):
    def test_between_an_owner_and_owners_or_readers_of_its_source_are_explained(self):
        self.assertTrue(is_explained(("map.cl", "owner"), ("list.cl", "owner")))
        self.assertTrue(is_explained(("map.cl", "reader"), ("map.cl", "owner, atomics")))

    def test_with_atomics_are_explained_if_the_owner_says_so(self):
        self.assertTrue(is_explained(("map.cl", "owner, atomics"), (ATOMICS, "")))
        self.assertFalse(is_explained(("map.cl", "owner"), (ATOMICS, "")))

    def test_with_another_line_are_faults(self):
        self.assertFalse(is_explained(("map.cl", "owner"), ("map.cl", "")))
        self.assertFalse(is_explained(("map.cl", "owner"), ("queue.cl", "reader")))
        self.assertFalse(is_explained(("map.cl", "reader"), ("map.cl", "reader")))
        self.assertFalse(is_explained(("map.cl", "owner"), ("map.cl", "owner"), ["Invalid read at 0x2000"]))


if __name__ == "__main__":
    unittest.main()
