#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks src/mpi/README.md: its table names each file of the folder once."""

import re
import unittest
from collections import Counter
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "src" / "mpi"


class RuntimeMap(unittest.TestCase):
    def test_its_table_names_each_file_once(self):
        rows = re.findall(r"^\|[^|\n]*\|([^|\n]*)\|$", (FOLDER / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
        named = Counter(name for row in rows for name in re.findall(r"`(\w+)`", row))
        files = {path.name.split(".")[0] for path in FOLDER.iterdir() if path.name != "README.md"}
        self.assertEqual([name for name, count in named.items() if count > 1], [], "named twice")
        self.assertEqual(set(named) - files, set(), "no file begins with these names")
        self.assertEqual(files - set(named), set(), "files that the table lacks")


if __name__ == "__main__":
    unittest.main()
