#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/mpi_programs.py tells which programs compile, run and agree, and why others do not.

QUARRY_MPI_TOOLS: the folder with quarry-mpicc and quarry-mpirun (else: those in the path).
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import mpi_programs  # noqa: E402
import program_runs  # noqa: E402

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


COMMIT = ["git", "-c", "user.name=n", "-c", "user.email=e", "commit", "-qm", "m", "--allow-empty"]


def run(names, in_git=False):
    """Runs the script. Returns its outcome, the records of --json, and the programs' commit."""
    with tempfile.TemporaryDirectory() as folder:
        sources = Path(folder) / "someone/programs"
        sources.mkdir(parents=True)
        (sources / "ranks.c").write_text(RANKS)
        (sources / "missing.c").write_text(MISSING)
        table = Path(folder) / "table.toml"
        table.write_text(TABLE)
        commit = "?"
        if in_git:
            for git in (["git", "init", "-q"], COMMIT, ["git", "rev-parse", "HEAD"]):
                done = subprocess.run(git, cwd=sources, capture_output=True, text=True, check=True)
                commit = done.stdout.strip()
        lines = Path(folder) / "lines.jsonl"
        script = ROOT / "scripts/mpi_programs.py"
        command = [sys.executable, script, table, folder, *names, "--json", lines]
        tools = os.environ.get("QUARRY_MPI_TOOLS")
        command += ["--tools", tools] if tools else []
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        return done, [json.loads(line) for line in lines.read_text().splitlines()], commit


class Lines(unittest.TestCase):
    def test_parts_of_lines_are_sorted_without_the_rest_of_the_line(self):
        entry = {"output": "lines", "lines": [r"^\d+ (\w+)"]}
        for text in ("1 b\n2 a\nno", "2 b\n1 a\n"):
            outcome = program_runs.Outcome(0, text, "")
            self.assertEqual(mpi_programs.relevant(entry, outcome), ["a", "b"])


class Script(unittest.TestCase):
    def test_programs_that_agree_are_good(self):
        found, _, _ = run(["good", "named"])
        self.assertEqual(found.returncode, 0, found.stdout + found.stderr)
        self.assertRegex(found.stdout, r"\| good \| \? \| yes \| yes \| (yes|-) \|")
        self.assertRegex(found.stdout, r"\| named \| \? \| yes \| yes \| (yes|-) \|")

    def test_programs_that_fail_are_reported_with_the_reason(self):
        found, records, _ = run(["silent", "failing", "missing", "absent"])
        self.assertEqual(found.returncode, 1, found.stdout + found.stderr)
        self.assertIn("| silent | ? | yes | yes | NO |", found.stdout)
        self.assertIn("silent: seed 0: none of the named lines is printed", found.stdout)
        self.assertIn("| failing | ? | yes | NO | - |", found.stdout)
        self.assertIn("failing: seed 0: status 1", found.stdout)
        self.assertIn("| missing | ? | NO | - | - |", found.stdout)
        self.assertIn("  fork: missing", found.stdout)
        self.assertIn("| absent | ? | - | - | - |", found.stdout)
        self.assertIn("absent: no file", found.stdout)
        steps = [(each["params"]["compiles"], each["params"]["equal"]) for each in records]
        self.assertEqual(steps, [(True, False), (True, False), (False, None), (None, None)])

    def test_a_record_names_the_commit_and_the_number_of_ranks(self):
        found, [record], commit = run(["good"], in_git=True)
        self.assertEqual(found.returncode, 0, found.stdout + found.stderr)
        self.assertIn(f"| good | {commit[:7]} |", found.stdout)
        self.assertEqual(record["params"]["commit"], commit[:7])
        self.assertEqual(record["params"]["ranks"], [3])
        self.assertTrue(record["params"]["equal"])


if __name__ == "__main__":
    unittest.main()
