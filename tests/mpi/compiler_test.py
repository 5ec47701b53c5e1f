#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles small C programs with quarry-mpicc, runs them on the CPU, and checks output and messages.

usage: compiler_test.py FOLDER [unittest's arguments]
FOLDER has quarry-mpicc and quarry-mpirun. A quarry-mpicc with CUDA makes the GPU's code, too.
"""

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

TOOLS = Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else Path("build/dev/mpi").resolve()
SOURCES = Path(__file__).resolve().parent / "compiler"
MINIMAL = "int main(void) { return 0; }\n"


class CompilerTest(unittest.TestCase):
    """Each test has an empty folder to work in, and one for temporary files that must be empty at its end."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name) / "work"
        self.scratch = Path(folder.name) / "scratch"
        self.folder.mkdir()
        self.scratch.mkdir()
        self.environment = os.environ | {"TMPDIR": str(self.scratch), "QUARRY_MPI_DEVICE": "cpu"}

    def tearDown(self):
        self.assertEqual(list(self.scratch.iterdir()), [], "temporary files are left")

    def write(self, **files):
        for name, text in files.items():
            (self.folder / name.replace("__", ".")).write_text(text)

    def execute(self, *words):
        return subprocess.run([str(word) for word in words], cwd=self.folder, env=self.environment,
                              capture_output=True, text=True, timeout=120, check=False)

    def compile(self, *words):
        """Compiles, and expects success. Returns what the compiler prints."""
        result = self.execute(TOOLS / "quarry-mpicc", *words)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result.stdout + result.stderr

    def refuse(self, *words):
        """Compiles, and expects an error and no output file. Returns the messages."""
        before = sorted(self.folder.iterdir())
        result = self.execute(TOOLS / "quarry-mpicc", *words)
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertEqual(sorted(self.folder.iterdir()), before, "a refused program left a file")
        return result.stderr

    def run_program(self, program="a.out", ranks=3, *words):
        result = self.execute(TOOLS / "quarry-mpirun", "-n", ranks, "./" + program, *words)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return sorted(result.stdout.splitlines())


class Options(CompilerTest):
    def test_several_files_make_a_program(self):
        self.write(a__c='#include <stdio.h>\n#include "b.h"\nint main(void) { printf("%d\\n", f(SIX)); return 0; }\n',
                   b__c="int f(int x) { return 7 * x; }\n")
        (self.folder / "headers").mkdir()
        (self.folder / "headers/b.h").write_text("int f(int);\n")
        self.compile("a.c", "b.c", "-Iheaders", "-D", "SIX=6", "-O3", "-std=c99", "-o", "program")
        self.assertEqual(self.run_program("program", 2), ["42", "42"])

    def test_c_makes_an_object_of_each_source(self):
        self.write(a__c="int f(void); int main(void) { return f() - 5; }\n", b__c="int f(void) { return 5; }\n")
        self.compile("-c", "a.c", "b.c")
        self.compile("a.o", "b.o")
        self.run_program()
        shutil.move(self.folder / "a.o", self.folder / "object without suffix")
        self.compile("b.o", "object without suffix", "-o", "program")
        self.run_program("program")

    def test_libraries_serve_in_any_order_and_only_needed_members_are_linked(self):
        self.write(main__c='#include <stdio.h>\nint f(int);\nint main(void) { printf("%d\\n", f(1)); return 0; }\n',
                   f__c="int g(int); int f(int x) { return x > 9 ? x : g(2 * x); }\n",
                   g__c="int f(int); int g(int x) { return f(3 * x + 1); }\n",
                   unused__c="int unknown_function(void); int unused(void) { return unknown_function(); }\n")
        self.compile("-c", "f.c", "g.c", "unused.c")
        for library, members in ("libf.a", ["f.o", "unused.o"]), ("libg.a", ["g.o"]):
            self.assertEqual(self.execute("ar", "rcs", library, *members).returncode, 0)
        for order in ["-lf", "-lg"], ["-lg", "-lf"]:
            self.compile(*order, "main.c", "-L.", "-lm", "-lpthread")
            self.assertEqual(self.run_program(ranks=1), ["43"])

    def test_dependency_files_name_the_object_and_all_headers(self):
        self.write(a__c='#include "a.h"\nint x;\n', a__h="\n")
        self.compile("-c", "a.c", "-MD", "-o", "out.o")
        self.assertRegex((self.folder / "out.d").read_text(), r"^out\.o: a\.c.*a\.h")
        self.compile("-c", "a.c", "-MMD", "-MP", "-MF", "d", "-MT", "name", "-o", "out.o")
        self.assertRegex((self.folder / "d").read_text(), r"^name: a\.c.*a\.h")

    def test_the_preprocessor_runs_alone(self):
        self.write(a__c="#include <mpi.h>\nint value = MPI_ANY_SOURCE;\n")
        self.assertIn("int value = (-1);", self.compile("-E", "a.c"))
        self.assertRegex(self.compile("-M", "a.c"), r"^a\.o: a\.c.*/mpi\.h")

    def test_information_is_printed(self):
        self.assertIn("quarry-mpicc", self.compile("--version"))
        self.assertIn("Target: x86_64", self.compile("-v"))
        self.assertIn("--cpu-only", self.compile("--help"))
        self.write(a__c=MINIMAL)
        self.assertIn("a.c", self.compile("--show", "a.c"))
        self.assertFalse((self.folder / "a.out").exists())

    def test_response_files_hold_options(self):
        self.write(a__c="int main(void) { return ZERO; }\n", words="-DZERO=0 'a.c'\n -o program")
        self.compile("@words")
        self.run_program("program")

    def test_pragmas_of_openmp_have_no_effect(self):
        self.write(a__c='#include <stdio.h>\nint main(void) {\n#pragma omp parallel\n  printf("x\\n");\n  return 0;\n}\n')
        self.compile("a.c", "-fopenmp", "-march=native", "-pthread", "-fPIC")
        self.assertEqual(self.run_program(ranks=1), ["x"])

    @unittest.skipUnless(shutil.which("cmake"), "CMake is not installed")
    def test_cmake_accepts_the_compiler(self):
        self.write(CMakeLists__txt="""cmake_minimum_required(VERSION 3.20)
project(x C)
include(CheckFunctionExists)
check_function_exists(malloc HAS_MALLOC)
check_function_exists(invented HAS_INVENTED)
if(NOT HAS_MALLOC OR HAS_INVENTED OR NOT CMAKE_SIZEOF_VOID_P EQUAL 8)
  message(FATAL_ERROR "a check failed")
endif()
find_package(MPI REQUIRED COMPONENTS C)
add_library(f STATIC f.c)
add_executable(program main.c)
target_link_libraries(program PRIVATE f MPI::MPI_C m)
""", f__c="int f(int x) { return x + 1; }\n", main__c="int f(int);\nint main(void) { return f(-1); }\n")
        result = self.execute("cmake", "-B", "build", f"-DCMAKE_C_COMPILER={TOOLS / 'quarry-mpicc'}")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        result = self.execute("cmake", "--build", "build")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.run_program("build/program")


class Refusals(CompilerTest):
    def test_everything_unsupported_is_named_with_all_places(self):
        source = SOURCES / "unsupported.c"
        messages = self.refuse(source)
        wanted = {}
        for number, line in enumerate(source.read_text().splitlines(), 1):
            if found := re.search(r";\s+/\* ([\w ]+) \*/$", line):
                wanted.setdefault(found[1], []).append(number)
        self.assertGreater(len(wanted), 7)
        for name, lines in wanted.items():
            self.assertIn(f"{source}:{lines[0]}: error: {name} is not supported", messages)
            if len(lines) > 1:
                self.assertIn(f"{source}:{lines[0]}: note: all places: {source}:{','.join(map(str, lines))}\n", messages)

    def test_inline_assembly_is_named_where_only_the_gpu_refuses_it(self):
        self.write(a__c='int f(int x) {\n  __asm__("cpuid" : "+a"(x) : : "ebx", "ecx", "edx");\n  return x;\n}\n')
        self.assertIn("a.c:2: error: inline assembly is not supported", self.refuse("-c", "a.c"))

    def test_other_languages_and_options_are_named_together(self):
        messages = self.refuse("a.cpp", "b.f90", "c.s", "libd.so", "-shared", "-fsanitize=address")
        for text in "a.cpp:1: error: C++", "b.f90:1: error: Fortran", "c.s:1: error: assembly", "libd.so", "-shared", "-fsanitize":
            self.assertIn(text, messages)

    def test_an_object_of_another_compiler_is_named(self):
        self.write(a__c=MINIMAL)
        self.assertEqual(self.execute("cc", "-c", "a.c").returncode, 0)
        self.assertEqual(self.execute("ar", "rcs", "liba.a", "a.o").returncode, 0)
        messages = self.refuse("a.o", "liba.a", "missing.o", "-lnone")
        for text in "a.o: error: another compiler", "liba.a(a.o): error: another compiler", "missing.o", "-lnone: error":
            self.assertIn(text, messages)

    def test_two_definitions_are_named_with_their_files(self):
        self.write(a__c="int f(void) { return 1; }\n" + MINIMAL, b__c="int f(void) { return 2; }\n")
        self.assertIn("b.c: error: f is defined in a.c, too", self.refuse("a.c", "b.c"))

    def test_errors_of_all_sources_are_shown_once(self):
        self.write(a__c="int a = ;\n", b__c="int b = ;\n")
        messages = self.refuse("-c", "a.c", "b.c")
        self.assertEqual(re.findall(r"([ab]\.c):1:\d+: error", messages), ["a.c", "b.c"])

    def test_a_refused_program_leaves_the_old_one(self):
        self.write(a__c=MINIMAL, b__c="int main(void) { return invented(); }\n")
        self.compile("a.c", "-o", "program")
        before = (self.folder / "program").read_bytes()
        self.refuse("b.c", "-o", "program")
        self.assertEqual((self.folder / "program").read_bytes(), before)

    def test_a_signal_ends_the_compiler_and_removes_its_files(self):
        body = "".join(f"int f{i}(int x) {{ return x * {i} + {i}; }}\n" for i in range(20000))
        self.write(a__c=body + MINIMAL)
        for number in signal.SIGTERM, signal.SIGINT:
            process = subprocess.Popen([TOOLS / "quarry-mpicc", "a.c"], cwd=self.folder, env=self.environment,
                                       stderr=subprocess.DEVNULL)
            while process.poll() is None and not any(self.scratch.glob("*/*")):
                time.sleep(0.001)
            process.send_signal(number)
            self.assertEqual(process.wait(60), -number)
            self.assertEqual(list(self.scratch.iterdir()), [])
            self.assertFalse((self.folder / "a.out").exists())


class Language(CompilerTest):
    def test_each_rank_has_its_own_copy_of_everything_mutable(self):
        self.compile("-Wall", "-Werror", SOURCES / "c_features.c", SOURCES / "c_features_other.c")
        parts = {line[:3]: line[4:] for line in self.run_program()}
        for rank in range(3):
            value = 7 + rank
            wanted = {"a": f"2 {2 * rank} 4 {18 if rank % 2 == 0 else 12}", "b": f"{value} {2 + 10 * rank} {5 + rank} {['zero', 'one', 'two'][rank]}",
                      "d": f"{rank} 8 45 {100 + rank} 0", "e": f"10 20 {[10, 20, 30][rank]}",
                      "f": f"{11 + rank:.1f} {63 if rank == 0 else 64} {17 + rank} 2000 {rank} 5"}
            for name, text in wanted.items():
                self.assertEqual(parts[f"{rank} {name}"], text)
            self.assertEqual(parts[f"{rank} c"], f"first 3 last {value} {9 if rank % 2 else 8}")

    def test_frames_in_the_heap_change_no_result(self):
        self.compile(SOURCES / "dynamic_frames.c", "-o", "stack", "--stack-frames")
        lines = self.run_program("stack", 4)
        self.assertEqual(len(set(lines)), 4)
        for level in ("-O0", "-O2"):  # -O2: the variables have lifetime markers
            self.compile(SOURCES / "dynamic_frames.c", "-o", "heap", level)
            self.assertEqual(self.run_program("heap", 4), lines)

    def test_frames_in_the_heap_are_freed(self):
        self.write(a__c="""#include <string.h>
static int use(int n) { char a[n]; memset(a, n, sizeof a); if (n % 3 == 0) return a[n / 2]; { char b[2 * n]; b[n] = a[1]; return b[n]; } }
int main(void) { char large[4000000]; memset(large, 1, sizeof large); int sum = large[3999999] - 1; for (int i = 0; i < 100000; ++i) sum += use(50000 + i % 7); return sum == 1; }
""")
        self.compile("a.c")
        self.run_program(ranks=2)

    def test_divisions_by_zero_are_reported_with_their_place(self):
        """A GPU does not notice them. The pass is for the GPU; --check-divisors lets it run on the CPU."""
        for operation in "parts", "100 / parts", "100 % parts", "100u / (unsigned)parts", "100l % parts", "ten() / (char)parts":
            self.write(a__c=f"""#include <stdio.h>
#include <mpi.h>
static volatile int parts = 1, unused;
__attribute__((noinline)) static int ten(void) {{ unused = 1; return 10; }}
int main(int argc, char **argv) {{
  int rank, sum;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  parts = (rank + 1) % 3;
  for (int i = 0; i < 2; ++i) sum = (int)({operation}) + ten();
  MPI_Barrier(MPI_COMM_WORLD);
  return (unused = sum) == 12345;
}}
""")
            for level in "-O0", "-O2":
                self.compile("a.c", level, "--check-divisors")
                result = self.execute(TOOLS / "quarry-mpirun", "-n", 3, "./a.out")
                expected = (0, "") if operation == "parts" else (136, "quarry-mpirun: rank 2 divides an integer by zero, a.c:10\n")
                self.assertEqual((result.returncode, result.stderr), expected, operation + level)

    def test_known_divisors_are_not_compared(self):
        self.write(a__c="""int f(int, int); int main(int argc, char **argv) { (void)argv; return f(argc, 2 * argc); }
__attribute__((noinline)) int f(int a, int b) {
  int sum = a / 7 + a / (b | 1) + a % (int)sizeof(int);
  for (int i = 2; i < 1000; ++i) sum += a % i;
  if (b != 0) sum += a / b;
  if (b > 3) sum *= a % b;
  return sum;
}
""")
        self.assertEqual(self.comparisons_of_divisors(), 0)
        self.write(a__c="int f(int, int); int main(int argc, char **argv) { (void)argv; return f(argc, 2 * argc); }\n"
                        "__attribute__((noinline)) int f(int a, int b) { return a / b * 3 + a % b; }\n")
        self.assertEqual(self.comparisons_of_divisors(), 1)

    def comparisons_of_divisors(self):
        """In a.c, for the GPU."""
        return self.ptx_of("a.c").count("\tquarry_mpi_divides_by_zero, ")

    def ptx_of(self, *words):
        """The program's code for the GPU."""
        said = self.compile(*words, "-save-temps")
        scratch = self.scratch / next(self.scratch.iterdir())
        text = (scratch / "program.ptx").read_text()
        shutil.rmtree(scratch)
        self.assertIn(scratch.name, said)
        return text

    def test_direct_calls_of_printf_have_slots(self):
        self.write(a__c="""#include <stdarg.h>
#include <stdio.h>
int (*volatile print)(const char *, ...) = printf;
static void own(const char *format, ...) {
  va_list list;
  va_start(list, format);
  vprintf(format, list);
  va_end(list);
}
int main(int argc, char **argv) {
  char text[20];
  printf("%d %d %c %s\\n", sizeof argc, argc, 'a', argv[0]);
  printf("%d\\n", printf == print);
  printf("%p %d\\n", (void *)printf, argc);
  snprintf(text, sizeof text, "%d", argc);
  print("%d\\n", argc);
  own("%d\\n", argc);
  return 0;
}
""")
        text = self.ptx_of("a.c", "-Wno-format")
        called = set(re.findall(r"quarry_c_\w*printf", text))
        self.assertEqual(called, {"quarry_c_slotted_printf", "quarry_c_slotted_snprintf", "quarry_c_printf", "quarry_c_vprintf"})

    def test_printf_without_a_prototype_is_variadic(self):
        self.write(a__c='int printf();\nint main(int argc, char **argv) { (void)argv; printf("%d %d\\n", sizeof argc, argc); return 0; }\n')
        text = self.ptx_of("a.c", "-std=gnu89", "-w")
        self.assertEqual(set(re.findall(r"quarry_c_\w*printf", text)), {"quarry_c_slotted_printf"})
        self.compile("a.c", "-std=gnu89", "-w")
        self.assertEqual(self.run_program(ranks=1), ["4 1"])

    def test_rings_of_constants_compile(self):
        self.write(a__c="""#include <stdio.h>
struct node { const struct node *next; int value; };
static const struct node b;
static const struct node a = {&b, 1};
static const struct node b = {&a, 2};
int main(int argc, char **argv) { (void)argv; const struct node *p = argc > 5 ? &b : &a; printf("%d\\n", p->next->value); return 0; }
""")
        self.compile("a.c")
        self.assertEqual(self.run_program(ranks=1), ["2"])

    def test_calls_without_prototypes_are_converted(self):
        self.compile("-std=gnu89", "-w", SOURCES / "calls_that_do_not_fit.c")
        self.assertEqual(self.run_program(ranks=1), ["7 x 2.5"])

    def test_functions_are_found_by_configure_scripts(self):
        for name in "malloc", "MPI_Send", "sin":
            self.write(a__c=f"char {name}();\nint main(void) {{ return {name}(); }}\n")
            self.compile("-w", "a.c", "-lm")
        self.write(a__c="char invented();\nint main(void) { return invented(); }\n")
        self.refuse("-w", "a.c")

    def test_the_report_names_frames_recursion_and_pointers(self):
        self.write(a__c="""#include <stdlib.h>
static int twice(int x) { return 2 * x; }
static int thrice(int x) { return 3 * x; }
static int (*volatile function)(int) = twice;
static int sink(volatile int *x) { return x[3]; }
__attribute__((noinline)) static int descend(int n) {
  volatile int x[100];
  x[n % 100] = n;
  return n == 0 ? sink(x) : descend(n - 1) * 3 + descend(n / 2) + sink(x);
}
int main(int argc, char **argv) { if (argc > 3) function = thrice; return descend(argc) + function((int)argv[0][0]) == 77; }
""")
        report = self.compile("--report", "a.c")
        if "CPU only" in self.compile("--version"):
            self.assertEqual(report, "no code for a GPU was made\n")
            return
        self.assertRegex(report, r"\n64 +\d+ B \+ +[tm]")
        self.assertRegex(report, r"  descend: 4\d\d 4\d\d 4\d\d 4\d\d B\n")
        self.assertRegex(report, r"spilled by each function with( \d+)+ registers\n  descend:( [1-9]\d*){4} B\n")
        self.assertIn("possible recursion: descend\n", report)
        self.assertIn("calls through pointers in main can reach thrice, twice\n", report)

    def test_the_runtime_has_no_recursion(self):
        """Else each rank of any program gets 16 KiB of stack."""
        self.write(a__c="""#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv) {
  int sum = 0, flag = 0;
  MPI_Request requests[2];
  MPI_Comm copy;
  MPI_Datatype type;
  MPI_Init(&argc, &argv);
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  MPI_Type_vector(2, 1, 2, MPI_INT, &type);
  MPI_Type_commit(&type);
  MPI_Iallreduce(&argc, &sum, 1, MPI_INT, MPI_SUM, copy, &requests[0]);
  MPI_Irecv(&flag, 1, MPI_INT, MPI_ANY_SOURCE, 0, copy, &requests[1]);
  MPI_Cancel(&requests[1]);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  MPI_Type_free(&type);
  MPI_Comm_free(&copy);
  printf("%d\\n", sum);
  return MPI_Finalize();
}
""")
        report = self.compile("--report", "a.c")
        if "CPU only" not in self.compile("--version"):
            self.assertIn("without --stack: what the calls need\n", report)
        self.assertNotIn("because of recursion", report)

    def test_complex_functions_of_the_gpu_are_those_of_the_host(self):
        """The GPU's source, compiled for the host; and a program that calls them compiles for the GPU."""
        result = self.execute("cc", "-O1", SOURCES / "complex_functions.c", "-o", "reference", "-lm")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.execute("./reference").stdout, "")
        functions = "cabs carg creal cimag conj cproj cexp clog csqrt csin ccos ctan csinh ccosh ctanh casin cacos catan casinh cacosh catanh"
        calls = "".join(f"  sum += {name}(z); f += {name}f(f);\n" for name in functions.split())
        self.write(a__c="#include <complex.h>\n#include <stdio.h>\n#include <stdlib.h>\nint main(void) {\n"
                        "  double complex z = atof(\"0.5\") + 0.25 * I, sum = cpow(z, z); float complex f = cpowf(z, z);\n"
                        + calls + '  printf("%.9f %.9f\\n", creal(sum), crealf(f) * 0);\n  return 0;\n}\n')
        self.assertEqual(self.execute("cc", "a.c", "-o", "b.out", "-lm").returncode, 0)
        self.compile("a.c", "-lm")
        self.assertEqual(self.run_program(ranks=1), self.execute("./b.out").stdout.splitlines())

    def test_mathematical_functions_need_no_errno(self):
        """Without errno, Clang has instructions instead of calls, of which LLVM makes no code for a GPU."""
        source = SOURCES / "math_functions.c"
        self.assertEqual(self.execute("cc", source, "-o", "b.out", "-lm").returncode, 0)
        wanted = sorted(self.execute("./b.out").stdout.splitlines())
        self.assertEqual(len(wanted), 11)
        for options in ("-O2",), ("-Ofast",), ("-O1", "-ffast-math"), ("-O0", "-fno-math-errno"):
            self.assertEqual(self.compile(source, *options, "-lm"), "")
            self.assertEqual(self.run_program(ranks=1), wanted)

    def test_the_header_includes_what_other_mpis_do(self):
        self.write(a__c="#include <mpi.h>\nint main(void) { return NULL != (void *)(sizeof(uint64_t) - sizeof(int64_t)); }\n")
        self.compile("a.c")

    def test_long_double_is_that_of_the_machine(self):
        self.write(a__c="""#include <math.h>
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, bytes;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Type_size(MPI_LONG_DOUBLE, &bytes);
  long double own = 1 + rank / 4.0L, tiny = 1e-18L * (rank + 1), values[3], sum;
  MPI_Allgather(&own, 1, MPI_LONG_DOUBLE, values, 1, MPI_LONG_DOUBLE, MPI_COMM_WORLD);
  own = rank == 0 ? 1 : tiny;
  MPI_Allreduce(&own, &sum, 1, MPI_LONG_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  printf("%d %.2Lf %.2Lf %.1Lf %.1Le\\n", bytes == (int)sizeof own, values[1], sqrtl(values[2] * values[2]), fabsl(-own) < 2 ? 1.0L : 0.0L, sum - 1);
  MPI_Finalize();
  return 0;
}
""")
        self.compile("a.c", "-lm")
        self.assertEqual(self.run_program(), ["1 1.25 1.50 1.0 5.0e-18"] * 3)

    @unittest.skipIf("CPU only" in subprocess.run([TOOLS / "quarry-mpicc", "--version"], capture_output=True, text=True,
                                                  check=False).stdout, "needs quarry-mpicc for GPUs")
    def test_without_ptxas_the_driver_compiles(self):
        """The executable has PTX instead of machine code; a warning says so."""
        shutil.copy(TOOLS / "quarry-mpicc", self.folder)
        parts = (TOOLS / "quarry-mpicc.cfg").read_text()
        (self.folder / "quarry-mpicc.cfg").write_text(re.sub(r"(?m)^ptxas .*", "ptxas /nowhere/ptxas", parts))
        self.write(a__c=MINIMAL)
        result = self.execute(self.folder / "quarry-mpicc", "a.c", "-o", "hidden")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("warning: ptxas or nvlink of the CUDA toolkit is missing", result.stderr)
        self.assertEqual(self.compile("a.c", "--ptx", "-o", "asked"), "")
        for program in "hidden", "asked":
            text = (self.folder / program).read_bytes()
            self.assertEqual(text.count(b".visible .entry quarry_mpi_run"), 1, "the runtime's PTX")
            self.assertGreaterEqual(text.count(b".target sm_90"), 2)
            self.run_program(program)

    def test_setjmp_works_on_the_cpu(self):
        self.write(a__c="""#include <setjmp.h>
#include <stdio.h>
static jmp_buf place;
static void leave(int n) { if (n == 0) longjmp(place, 5); leave(n - 1); }
int main(void) { int code = setjmp(place); if (code == 0) leave(9); printf("%d\\n", code); return 0; }
""")
        self.assertIn("a.c:5: error: _setjmp", self.refuse("a.c"))
        self.compile("a.c", "--cpu-only")
        self.assertEqual(self.run_program(), ["5"] * 3)

    def test_random_initial_values_are_those_of_the_host(self):
        """Structures with pointers to one another, against the C library's compiler."""
        seed = int(os.environ.get("QUARRY_TEST_FIRST_SEED", "1"))
        choose = random.Random(seed)
        count = 30
        lines = ["#include <stdio.h>", "struct s { char c; struct s *p; short h; int *q; double d; const char *t; };"]
        lines += [f"extern struct s v{i};" for i in range(count)]
        lines += [f"{'static ' if i % 3 else ''}int n{i} = {choose.randrange(1000)};" for i in range(count)]
        for i in range(count):
            peer, number = choose.randrange(count), choose.randrange(count)
            lines.append(f"struct s v{i} = {{.c = {choose.randrange(100)}, .p = {choose.choice(['0', f'&v{peer}'])}, "
                         f".h = {choose.randrange(-99, 99)}, .q = &n{number}, .d = {choose.random()}, .t = \"t{peer}\" + 1}};")
        lines.append("int main(void) {")
        lines += [f'  printf("%d %d %d %d %.6f %s\\n", v{i}.c, v{i}.p ? v{i}.p->c : -1, v{i}.h, *v{i}.q, v{i}.d, v{i}.t);'
                  for i in range(count)]
        self.write(a__c="\n".join([*lines, "  return 0;", "}", ""]))
        self.assertEqual(self.execute("cc", "a.c", "-o", "reference").returncode, 0)
        self.compile("a.c")
        reference = self.execute("./reference").stdout
        self.assertEqual(self.run_program(ranks=1), sorted(reference.splitlines()), f"seed {seed}")


if __name__ == "__main__":
    unittest.main()
