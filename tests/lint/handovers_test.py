#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that scripts/oclgrind_reports.py finds each line that it explains, in one program only."""

import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import oclgrind_reports  # noqa: E402


def missing(handovers, root=ROOT):
    """The lines that do not stand in their source, or in the only program with their kernel."""
    found = []
    for handover in handovers:
        path = root / "opencl" / handover.source
        if path.is_file():
            source = path.read_text().split("\n")
        else:
            source = oclgrind_reports.program_of(handover.source, root)
        lines = {line.strip() for line in source}
        found += [line for line in [*handover.owner, *handover.readers] if line not in lines]
    return found


class HandoversTest(unittest.TestCase):
    def test_every_line_stands_in_its_source(self):
        self.assertEqual(missing(oclgrind_reports.HANDOVERS), [])

    def test_a_line_that_was_renamed_is_found(self):
        changed = oclgrind_reports.Handover("list.cl", ["*next = oldest;"], [], False)
        self.assertEqual(missing([changed]), ["*next = oldest;"])

    def test_a_kernel_name_of_two_programs_explains_nothing(self):
        # A report does not say which one of the programs its line belongs to.
        program = 'R"opencl(\n__kernel void twice(__global uint* at) {\n  *at = 1u;\n}\n)opencl"'
        handover = oclgrind_reports.Handover("twice", ["*at = 1u;"], [], False)
        with tempfile.TemporaryDirectory() as folder:
            tests = Path(folder) / "tests/opencl"
            tests.mkdir(parents=True)
            (tests / "one_test.cpp").write_text(program)
            self.assertEqual(missing([handover], Path(folder)), [])
            self.assertEqual(oclgrind_reports.program_of("twice", Path(folder))[2], "  *at = 1u;")
            (tests / "another_test.cpp").write_text(program)
            self.assertEqual(missing([handover], Path(folder)), ["*at = 1u;"])


if __name__ == "__main__":
    unittest.main()
