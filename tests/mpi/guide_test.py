#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The commands of docs/guide/mpi_debugging.md print what the page shows.

The page has 100,000 ranks; the test has 1,000, and numbers of ranks on the page become those of 1,000 ranks.
Reports of traces are not compared: their times differ.

The first argument is the folder of quarry-mpicc and quarry-mpirun.
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/guide/mpi_debugging.md"
COMPILED_THERE = ROOT / "examples/mpi/faulty.c"  # by a command of the page
COMPILED = [ROOT / f"tests/mpi/programs/{name}.c" for name in ("fails_deadlock", "fails_mixed_counts")]
BLOCK = re.compile(r"^```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def with_fewer_ranks(text):
    """A fault is at a third of the ranks; other numbers are near their count."""

    def changed(found):
        number = int(found[0])
        if 99_000 < number <= 100_000:
            return str(number - 99_000)
        return str(number - 33_000) if 33_000 < number < 34_000 else found[0]

    return re.sub(r"\b\d+\b", changed, text)


def examples():
    """(commands, output) of each block that shows what quarry-mpirun prints."""
    for block in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        lines = with_fewer_ranks(block).splitlines()
        commands = [line[2:] for line in lines if line.startswith("$ ")]
        if commands and not any("quarry report" in command for command in commands):
            yield commands, [line for line in lines if not line.startswith("$ ")]


class Guide(unittest.TestCase):
    def test_the_commands_print_what_the_page_shows(self):
        tools = Path(sys.argv[1]).resolve()
        path = f"{tools}{os.pathsep}{os.environ['PATH']}"
        with tempfile.TemporaryDirectory() as folder:
            for source in [COMPILED_THERE, *COMPILED]:
                (Path(folder) / source.name).write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
            for source in COMPILED:
                subprocess.run(
                    [tools / "quarry-mpicc", "-O1", source.name, "-o", source.stem], cwd=folder, check=True, timeout=120
                )
            runs = 0
            for commands, shown in examples():
                printed = []
                for command in commands:
                    cpu = command.replace("quarry-mpirun -n", "quarry-mpirun --device cpu -n")
                    done = subprocess.run(
                        ["bash", "-c", cpu], cwd=folder, capture_output=True, text=True, timeout=120, check=False,
                        env={**os.environ, "PATH": path},
                    )
                    printed += done.stdout.splitlines() + done.stderr.splitlines()
                    runs += 1
                with self.subTest(commands=commands):
                    self.assertEqual(printed, shown)
            self.assertGreater(runs, 5)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
