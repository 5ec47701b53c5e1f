#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that use the C library, compiled by quarry-mpicc and run on the CPU.

The first argument is the folder of quarry-mpicc and quarry-mpirun.
"""

import os
import subprocess
import sys
import tempfile
import unittest

TOOLS = ""

VARIABLES = r"""
#include <assert.h>
#include <getopt.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, letter;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  srand(7);
  while ((letter = getopt(argc, argv, "ab:")) != -1)
    fprintf(stdout, "%d: %c %s %d\n", rank, letter, optarg ? optarg : "-", optind);
  fprintf(stdout, "%d: %s %d %s\n", rank, argv[optind], rand(), getenv("GREETING"));
  char line[20];
  if (fgets(line, sizeof line, stdin)) fprintf(stdout, "%d: line %s", rank, line);
  if (rank == 2) fprintf(stderr, "error of 2\n");
  MPI_Barrier(MPI_COMM_WORLD);
  assert(argc < 6);
  MPI_Finalize();
  return 0;
}
"""

# The first number of glibc's rand after srand(7).
FIRST_RANDOM = 1045618677

UNDECLARED = r"""
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  srandom(time(NULL));
  usleep(1);
  printf("%d\n", atoi("12") + 1);
  MPI_Finalize();
  exit(3);
}
"""

FILES = r"""
#include <errno.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>
int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, number = 0;
  char name[100], word[20];
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  snprintf(name, sizeof name, "%s/file%d", argv[1], rank);
  FILE *file = fopen(name, "w");
  fprintf(file, "rank %d\n", rank);
  fclose(file);
  file = fopen(name, "r");
  int count = fscanf(file, "%s %d", word, &number);
  printf("%d %s %d\n", count, word, number);
  fclose(file);
  if (fopen(argv[2], "r") == NULL) printf("%s\n", strerror(errno));
  MPI_Finalize();
  return 0;
}
"""


class CPrograms(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def run_program(self, source, ranks, arguments=(), text=""):
        path = os.path.join(self.folder.name, "program")
        with open(path + ".c", "w", encoding="utf-8") as file:
            file.write(source)
        subprocess.run([TOOLS + "/quarry-mpicc", "-w", path + ".c", "-o", path], check=True, timeout=100)
        return subprocess.run(
            [TOOLS + "/quarry-mpirun", "-n", str(ranks), "--device", "cpu", path, *arguments],
            input=text, capture_output=True, text=True, timeout=60, check=False,
            env={**os.environ, "GREETING": "hello"})

    def test_each_rank_has_the_variables_of_the_c_library(self):
        result = self.run_program(VARIABLES, 3, ["-a", "word", "-b5"], "first\nsecond\n")
        expected = ["0: line first"]
        for rank in range(3):
            expected += [f"{rank}: a - 2", f"{rank}: b 5 4", f"{rank}: word {FIRST_RANDOM} hello"]
        self.assertEqual(sorted(result.stdout.splitlines()), sorted(expected))
        self.assertEqual(result.stderr, "error of 2\n")
        self.assertEqual(result.returncode, 0)

    def test_a_failed_assertion_names_its_place_and_ends_the_program(self):
        result = self.run_program(VARIABLES, 1, ["x", "x", "x", "x", "x"])
        self.assertRegex(result.stderr, r"rank 0: .*program\.c:19: .*main.*: Assertion `argc < 6' failed\.\n")
        self.assertEqual(result.returncode, 134)

    def test_undeclared_functions_get_their_types(self):
        result = self.run_program(UNDECLARED, 2)
        self.assertEqual((result.stdout, result.returncode), ("13\n13\n", 3))

    def test_files_are_written_and_read(self):
        result = self.run_program(FILES, 2, [self.folder.name, "/nonexistent/file"])
        self.assertEqual(sorted(result.stdout.splitlines()),
                         ["2 rank 0", "2 rank 1", "No such file or directory", "No such file or directory"])


if __name__ == "__main__":
    TOOLS = sys.argv.pop(1)
    unittest.main()
