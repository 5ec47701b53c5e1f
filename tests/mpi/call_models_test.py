#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the analysis's tables of functions (compiler/analysis: call_models, call_waits) with the functions that ranks can call.

usage: call_models_test.py ARCHIVE NM [unittest's arguments]
ARCHIVE is libquarry_mpi.a, NM the program that lists its names.
"""

import ctypes
import re
import subprocess
import sys
import unittest
from pathlib import Path

ARCHIVE, NM = sys.argv.pop(1), sys.argv.pop(1)
ROOT = Path(__file__).resolve().parents[2]
C_PREFIX = "quarry_c_"  # of the runtime's functions that replace those of the C library

# The analysis takes these as unknown functions, or replaces them by code of its own (library_calls.cpp). Add a function here only if a
# row of the table cannot say what it does.
WITHOUT_ROW = set("""
    __getdelim getdelim getline asprintf vasprintf bcopy bsearch vfscanf vscanf vsscanf __isoc23_vfscanf __isoc23_vscanf __isoc23_vsscanf
    __isoc99_vfscanf __isoc99_vscanf __isoc99_vsscanf posix_memalign strsep strtok strtok_r calloc_collective malloc_collective
""".split())
# The compiler itself has these.
JUMPS = {"setjmp", "_setjmp", "__sigsetjmp", "longjmp", "_longjmp", "siglongjmp"}


def rows():
    """The names of the functions that the table models."""
    text = "".join((ROOT / "compiler/analysis" / name).read_text() for name in ("call_models.cpp", "mpi_models.hpp"))
    table = "".join(re.findall(r"call_model \w*models\[\] = \{(.*?)^\};", text, re.S | re.M))
    lists = re.findall(r"char const\* (?:pure|number)_functions =(.*?);", text, re.S)
    words = " ".join(part for each in lists for part in re.findall(r'"([^"]*)"', each)).split()
    return re.findall(r'\{"(\w+)"', table) + words


def provided():
    """The functions of MPI and of C that the runtime has, by the names that programs use."""
    lines = subprocess.run([NM, "-g", "--defined-only", ARCHIVE], capture_output=True, text=True, timeout=60, check=True).stdout.splitlines()
    names = {line.split()[-1] for line in lines if len(line.split()) == 3}
    functions = {name.removeprefix(C_PREFIX) for name in names if name.startswith(C_PREFIX)}
    variables = {name for name in functions if name.startswith("address_of_")}  # all of these have one row
    return {name for name in names if name.startswith("MPI_")}, functions - variables


def preprocessed():
    """The text of mpi.h, one declaration a line."""
    command = ["cc", "-E", "-P", str(ROOT / "include/quarry/mpi/mpi.h")]
    text = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    return re.sub(r";\s*", ";\n", re.sub(r"\s+", " ", text))


def declarations():
    """The functions that mpi.h declares, with their parameters."""
    found = re.findall(r"^(?:int|double|MPI_Aint) (MPI_\w+) ?\((.*)\);$", preprocessed(), re.M)
    return dict(found)


class CallModels(unittest.TestCase):
    def setUp(self):
        self.rows = rows()
        self.mpi, self.c = provided()
        self.assertGreater(len(self.mpi), 60)
        self.assertGreater(len(self.c), 100)
        self.assertGreater(len(self.rows), 200)

    def test_are_one_row_each(self):
        self.assertEqual([name for name in set(self.rows) if self.rows.count(name) > 1], [])

    def without_large_counts(self, names):
        """A function with large counts has the row of the one without them, unless it has a row of its own."""
        return {name if name in self.rows else name.removesuffix("_c") for name in names}

    def test_have_a_row_for_each_function_of_mpi(self):
        self.assertEqual(self.without_large_counts(self.mpi) - set(self.rows), set())

    def test_have_a_row_for_each_function_of_mpi_h_that_exists(self):
        declared = set(declarations())
        self.assertGreater(len(declared), 300)
        self.assertEqual(self.without_large_counts(declared & self.mpi) - set(self.rows), set())
        self.assertEqual(self.mpi - declared, set())

    def test_have_rows_for_results_with_large_counts(self):
        """The row of the function without them would say that four bytes are written."""
        results = {name for name, parameters in declarations().items() if name.endswith("_c") and "MPI_Count* " in parameters}
        self.assertGreater(len(results), 8)
        same = {"MPI_Op_create_c", "MPI_Type_get_extent_c", "MPI_Type_get_true_extent_c"}  # of 8 bytes without _c, too
        same |= {"MPI_Pack_external_c", "MPI_Unpack_external_c", "MPI_Pack_external_size_c"}
        self.assertEqual(results - set(self.rows) - same, set())

    def test_know_the_second_name_of_each_function(self):
        names = set(re.findall(r"^extern \S+ PMPI_(\w+);", preprocessed(), re.M))
        self.assertEqual({f"MPI_{name}" for name in names}, set(declarations()))

    def test_have_a_row_for_each_function_of_c_or_a_reason_why_not(self):
        self.assertEqual(self.c - set(self.rows) - WITHOUT_ROW, set())
        self.assertEqual(WITHOUT_ROW & set(self.rows), set())
        self.assertEqual(WITHOUT_ROW - self.c, set())

    def test_say_of_each_function_of_mpi_whether_it_waits(self):
        text = (ROOT / "compiler/analysis/call_waits.cpp").read_text()
        waits = re.findall(r'\{"(MPI_\w+)", company::', text)
        self.assertEqual(len(waits), len(set(waits)))
        self.assertEqual(set(waits), {name.removesuffix("_c") for name in self.mpi})

    def test_name_only_functions_that_exist(self):
        mathematics = ctypes.CDLL("libm.so.6")
        unknown = set(self.rows) - self.mpi - self.c - JUMPS
        self.assertEqual({name for name in unknown if not hasattr(mathematics, name)}, set())


if __name__ == "__main__":
    unittest.main()
