#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that each line which scripts/oclgrind_reports.py explains stands in its source."""

import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import oclgrind_reports  # noqa: E402


def missing(handovers, root=ROOT):
    """The lines that do not stand in their source, or in no test if the source is a kernel."""
    found = []
    for handover in handovers:
        path = root / "opencl" / handover.source
        sources = [path] if path.is_file() else sorted(root.glob("tests/opencl/*.cpp"))
        lines = {line.strip() for source in sources for line in source.read_text().split("\n")}
        found += [line for line in [*handover.owner, *handover.readers] if line not in lines]
    return found


class HandoversTest(unittest.TestCase):
    def test_every_line_stands_in_its_source(self):
        self.assertEqual(missing(oclgrind_reports.HANDOVERS), [])

    def test_a_line_that_was_renamed_is_found(self):
        changed = oclgrind_reports.Handover("list.cl", ["*next = oldest;"], [], False)
        self.assertEqual(missing([changed]), ["*next = oldest;"])


if __name__ == "__main__":
    unittest.main()
