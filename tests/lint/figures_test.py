#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""README and docs show what bench/results has: scripts/readme_table.py wrote them last."""

import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = "coalescing.md"


def check(design=None):
    """How `readme_table.py --check` ends, and what it says."""
    command = [sys.executable, ROOT / "scripts" / "readme_table.py", "--check"]
    if design:
        command += ["--design", design]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


class Figures(unittest.TestCase):
    def changed(self, old, new):
        """What `check` gives if in one page the first `old` were `new`."""
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(ROOT / "docs" / "design", folder, dirs_exist_ok=True)
            page = Path(folder) / PAGE
            text = page.read_text(encoding="utf-8")
            self.assertIn(old, text)
            page.write_text(text.replace(old, new, 1), encoding="utf-8")
            return check(folder)

    def test_pages_show_the_results(self):
        status, said = check()
        self.assertEqual(status, 0, said)

    def test_a_figure_typed_by_hand_is_refused(self):
        status, said = self.changed("header-warp 2", "header-warp 1")
        self.assertEqual(status, 1)
        self.assertIn(f"{PAGE} does not show", said)

    def test_a_page_that_lost_a_part_is_refused(self):
        status, said = self.changed("<!-- figures:claims:begin -->", "")
        self.assertEqual(status, 1)
        self.assertIn(f"{PAGE} has the parts ['cost']; it must have ['claims', 'cost']", said)


if __name__ == "__main__":
    unittest.main()
