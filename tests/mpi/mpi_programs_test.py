#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/mpi_programs.py tells which programs compile, run and agree, and why others do not.

QUARRY_MPI_TOOLS: the folder with quarry-mpicc and quarry-mpirun (else: those in the path).
"""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

RANKS = """
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  printf("%s %d\\n", argc > 1 ? argv[1] : "rank", rank);
  MPI_Finalize();
  return argc > 2;
}
"""
MISSING = "int fork(void);\nint main(void) { return fork(); }\n"

TABLE = """
[[program]]
name = "good"
repository = "someone/programs"
sources = ["r*.c"]
ranks = 3

[[program]]
name = "named"
repository = "someone/programs"
sources = ["ranks.c"]
ranks = 2
arguments = ["word"]
output = "lines"
lines = ["^word"]

[[program]]
name = "silent"
repository = "someone/programs"
sources = ["ranks.c"]
ranks = 2
output = "lines"
lines = ["^word"]

[[program]]
name = "failing"
repository = "someone/programs"
sources = ["ranks.c"]
ranks = 1
arguments = ["a", "b"]

[[program]]
name = "missing"
repository = "someone/programs"
sources = ["missing.c"]
ranks = 1

[[program]]
name = "absent"
repository = "someone/else"
sources = ["*.c"]
ranks = 1
"""


def run(names):
    with tempfile.TemporaryDirectory() as folder:
        sources = Path(folder) / "someone/programs"
        sources.mkdir(parents=True)
        (sources / "ranks.c").write_text(RANKS)
        (sources / "missing.c").write_text(MISSING)
        table = Path(folder) / "table.toml"
        table.write_text(TABLE)
        command = [sys.executable, ROOT / "scripts/mpi_programs.py", table, folder, *names]
        tools = os.environ.get("QUARRY_MPI_TOOLS")
        command += ["--tools", tools] if tools else []
        return subprocess.run(command, capture_output=True, text=True, timeout=120)


class Script(unittest.TestCase):
    def test_programs_that_agree_are_good(self):
        found = run(["good", "named"])
        self.assertEqual(found.returncode, 0, found.stdout + found.stderr)
        self.assertRegex(found.stdout, r"\| good \| \? \| yes \| yes \| (yes|-) \|")
        self.assertRegex(found.stdout, r"\| named \| \? \| yes \| yes \| (yes|-) \|")

    def test_programs_that_fail_are_reported_with_the_reason(self):
        found = run(["silent", "failing", "missing", "absent"])
        self.assertEqual(found.returncode, 1, found.stdout + found.stderr)
        self.assertIn("| silent | ? | yes | yes | NO |", found.stdout)
        self.assertIn("silent: seed 0: none of the named lines is printed", found.stdout)
        self.assertIn("| failing | ? | yes | NO | - |", found.stdout)
        self.assertIn("failing: seed 0: status 1", found.stdout)
        self.assertIn("| missing | ? | NO | - | - |", found.stdout)
        self.assertIn("  fork: missing", found.stdout)
        self.assertIn("| absent | ? | - | - | - |", found.stdout)
        self.assertIn("absent: no file", found.stdout)


if __name__ == "__main__":
    unittest.main()
