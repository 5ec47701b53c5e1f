#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The rules of CONTRIBUTING.md, section Style, that a script can check."""

import re
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

FOLDERS = [
    "include",
    "src",
    "tests",
    "bench",
    "examples",
    "opencl",
    "fortran",
    "compiler",
    "python",
    "scripts",
    "cmake",
]
CODE = {".hpp", ".cuh", ".h", ".cpp", ".cu", ".c", ".cl", ".py"}
WITH_LICENCE = CODE | {".sh", ".cmake", ".f90"}
LONGEST = 500
WIDEST = 100
FORMATTED = {".hpp", ".cuh", ".h", ".cpp", ".cu", ".cl", ".f90"}  # by make format
SPDX = "SPDX-License-Identifier: Apache-2.0"

# Rule -> path -> why this file is excepted. An entry that is not needed is also refused.
EXCEPTIONS = {
    "test file": {
        "include/quarry/core/config.hpp": "macros and one constant: every other test compiles this file",
        "include/quarry/core/export.hpp": "one macro: tests/install compiles the exported functions",
    },
    "conditional": {
        "include/quarry/device/mitigations.hpp": "turns QUARRY_HARDENED into a constant, once",
        "include/quarry/device/detail/orders.hpp": "turns QUARRY_MUTANTS into a function, once",
    },
    "memory order": {"include/quarry/device/detail/orders.hpp": "relaxes the label that a mutant names"},
}

CONDITIONAL = re.compile(r"^\s*#\s*(if|ifdef|ifndef|elif)\b")
WEAK_ORDER = re.compile(
    r"\b(?:memory_order_|memory_order::|simt::)(?:relaxed|consume|acquire|release|acq_rel)\b"
)
NAMESPACE = re.compile(r"\s*namespace quarry\b(?!::inline QUARRY_ABI\b)")
BODY = re.compile(r"(return|continue|break|throw)\b")
LABEL = re.compile(r"//\s*((?:\([A-Z]\w*\)[,\s]*)+)(.*)")
ONE_LABEL = re.compile(r"\(([A-Z]\w*)\)")


def files(root, suffixes, folders=FOLDERS):
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in suffixes or (path.name == "CMakeLists.txt" and ".cmake" in suffixes):
                yield path


def lines_of(path):
    return path.read_text(encoding="utf-8").splitlines()


def code_of(line):
    """The code before a line comment. A // in a string ends the code too early, which hides orders."""
    return line.split("//", 1)[0]


def without_licence(root):
    for path in files(root, WITH_LICENCE):
        top = lines_of(path)[:2]
        if top and top[0].startswith("#!"):
            top = top[1:]
        if not top or SPDX not in top[0]:
            yield path, f"the first line (after #!) must hold '{SPDX}'"


def too_long(root):
    for path in files(root, CODE | FORMATTED):
        count = len(lines_of(path))
        if count > LONGEST:
            yield path, f"{count} lines; at most {LONGEST}. Move its second idea to another file."


def conditionals(root):
    for path in files(root, CODE, ["include/quarry/device"]):
        for number, line in enumerate(lines_of(path), 1):
            if CONDITIONAL.match(line):
                yield path, f"line {number}: '{line.strip()}': use `if constexpr`, or simt/"


def without_test(root):
    """Headers in a layer's folder that users include and that no test includes."""
    include = re.compile(r'^#include "(quarry/[^"]+)"', re.MULTILINE)
    tested = set()
    for path in files(root, {".hpp", ".cpp", ".cu"}, ["tests"]):
        tested |= set(include.findall(path.read_text(encoding="utf-8")))
    for path in files(root, {".hpp"}, ["include/quarry"]):
        place = path.relative_to(root / "include")
        if len(place.parts) > 2 and "detail" not in place.parts and place.as_posix() not in tested:
            yield path, "no test includes it"


def label_of_statement(lines, number):
    """The label at line `number`, or at a later line of the expression that begins there.

    A label behind a closing brace, or in the body of an `if` or a loop, does not count.
    """
    for offset, line in enumerate(lines[number - 1 :]):
        code = code_of(line).strip()
        if offset and (BODY.match(code) or code.startswith("}")):
            return None
        if label := LABEL.search(line):
            return label
        if code.endswith((";", "{", "}")):
            return None
    return None


def orders_without_label(root):
    for path in files(root, CODE, ["include/quarry/device"]):
        lines = lines_of(path)
        labels = {
            n: label_of_statement(lines, n)
            for n, line in enumerate(lines, 1)
            if WEAK_ORDER.search(code_of(line))
        }
        at_orders = {label.string for label in labels.values() if label}
        # A comment elsewhere in the file, or words behind the label at its line, argue a label.
        argued = set()
        for line in lines:
            if line not in at_orders:
                argued |= set(ONE_LABEL.findall(line.partition("//")[2]))
            elif LABEL.search(line).group(2).strip():
                argued |= set(ONE_LABEL.findall(LABEL.search(line).group(1)))
        for number, label in labels.items():
            if not label:
                yield path, f"line {number}: a weak memory order without a label like `// (R)`"
                continue
            for name in ONE_LABEL.findall(label.group(1)):
                if name not in argued:
                    yield path, f"line {number}: no comment in this file says what ({name}) pairs with"


def too_wide(root):
    for path in files(root, FORMATTED):
        for number, line in enumerate(lines_of(path), 1):
            if len(line) > WIDEST and 'R"(' not in line:
                yield path, f"line {number}: {len(line)} columns; at most {WIDEST} (make format)"


def outside_the_abi(root):
    for path in files(root, {".hpp", ".cuh", ".cpp", ".cu"}, ["include", "src"]):
        text = path.read_text(encoding="utf-8")
        for number, line in enumerate(text.splitlines(), 1):
            if NAMESPACE.match(line):
                yield path, f"line {number}: '{line}': write `namespace quarry::inline QUARRY_ABI`"
        if path.is_relative_to(root / "include") and '#include "quarry/' not in text:
            yield path, "includes nothing of Quarry: QUARRY_ABI needs quarry/core/abi.hpp"


RULES = {
    "namespace": outside_the_abi,
    "licence": without_licence,
    "length": too_long,
    "width": too_wide,
    "conditional": conditionals,
    "test file": without_test,
    "memory order": orders_without_label,
}


def violations(root, rule, exceptions=None):
    """One line for each breach of a rule, and for each exception that no file needs."""
    allowed = (EXCEPTIONS if exceptions is None else exceptions).get(rule, {})
    needed = set()
    found = []
    for path, problem in RULES[rule](root):
        name = path.relative_to(root).as_posix()
        if name in allowed:
            needed.add(name)
        else:
            found.append(f"{name}: {problem}")
    for name in sorted(set(allowed) - needed):
        found.append(
            f"{name}: does not need its exception from the rule '{rule}'; remove the exception"
        )
    return found


class Hygiene(unittest.TestCase):
    def check(self, rule):
        self.assertTrue(any(files(ROOT, {".hpp"})), f"no sources under {ROOT}: nothing was checked")
        found = violations(ROOT, rule)
        if found:
            self.fail("\n" + "\n".join(found))

    def test_each_source_file_begins_with_its_licence(self):
        self.check("licence")

    def test_no_file_has_more_than_500_lines(self):
        self.check("length")

    def test_no_line_is_wider_than_100_columns(self):
        self.check("width")

    def test_device_code_has_no_preprocessor_conditionals(self):
        self.check("conditional")

    def test_a_test_includes_each_header(self):
        self.check("test file")

    def test_all_code_is_in_the_inline_namespace_of_this_version(self):
        self.check("namespace")

    def test_each_weak_memory_order_has_a_label_that_a_comment_argues(self):
        self.check("memory order")


class PlantedViolations(unittest.TestCase):
    """Shows each rule a file that breaks the rule and a file that does not."""

    def planted(self, rule, files_, exceptions=None):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder).resolve()
            for name, text in files_.items():
                path = root / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            return violations(root, rule, exceptions or {})

    def test_a_file_without_licence_is_caught_and_a_file_with_shebang_passes(self):
        found = self.planted(
            "licence",
            {
                "src/a.cpp": "#include <b>\n",
                "scripts/b.sh": f"#!/bin/sh\n# {SPDX}\n",
                "tests/CMakeLists.txt": "add_test()\n",
                "src/c.cpp": "",
            },
        )
        self.assertEqual(
            [line.split(":")[0] for line in found],
            ["src/a.cpp", "src/c.cpp", "tests/CMakeLists.txt"],
        )

    def test_a_file_of_501_lines_is_caught_and_a_file_of_500_passes(self):
        for suffix in ["cpp", "f90"]:
            sources = {f"src/a.{suffix}": "//\n" * 501, f"src/b.{suffix}": "//\n" * 500}
            found = self.planted("length", sources)
            self.assertEqual(len(found), 1)
            self.assertIn(f"src/a.{suffix}: 501 lines", found[0])

    def test_a_line_of_101_columns_is_caught_and_a_line_of_100_passes(self):
        for suffix in ["cpp", "cl", "f90"]:
            sources = {f"src/a.{suffix}": "/" * 101, f"src/b.{suffix}": "/" * 100}
            found = self.planted("width", sources)
            self.assertEqual(len(found), 1)
            self.assertIn(f"src/a.{suffix}: line 1: 101 columns", found[0])

    def test_a_conditional_in_device_code_is_caught_and_elsewhere_passes(self):
        found = self.planted(
            "conditional",
            {
                "include/quarry/device/a.hpp": "#pragma once\n# ifdef __CUDA_ARCH__\n#endif\n",
                "include/quarry/simt/b.hpp": "#ifdef __CUDA_ARCH__\n#endif\n",
            },
        )
        self.assertEqual(len(found), 1)
        self.assertIn("a.hpp: line 2", found[0])

    def test_code_outside_the_inline_namespace_is_caught(self):
        include = '#include "quarry/core/abi.hpp"\n'
        found = self.planted(
            "namespace",
            {
                "include/quarry/a.hpp": include + "namespace quarry::inline QUARRY_ABI::simt {\n",
                "include/quarry/b.hpp": include + "namespace quarry {\n",
                "include/quarry/c.hpp": "namespace quarry::inline QUARRY_ABI {\n",
                "src/d.cpp": "namespace quarry::simt {\n}  // namespace quarry::simt\n",
                "tests/e_test.cpp": "namespace quarry::test {\n",
            },
        )
        self.assertEqual(
            [line.split(":")[0] for line in found],
            ["include/quarry/b.hpp", "include/quarry/c.hpp", "src/d.cpp"],
        )

    def test_a_public_header_without_a_test_is_caught(self):
        found = self.planted(
            "test file",
            {
                "include/quarry/umbrella.hpp": "",
                "include/quarry/device/a.hpp": "",
                "include/quarry/device/b.hpp": "",
                "include/quarry/device/detail/c.hpp": "",
                "tests/device/a_test.cpp": '#include "quarry/device/a.hpp"\n',
                "tests/device/b_test.cpp": '// not "quarry/device/b.hpp"\n',
            },
        )
        self.assertEqual(found, ["include/quarry/device/b.hpp: no test includes it"])

    def test_an_order_without_a_label_is_caught(self):
        found = self.planted(
            "memory order",
            {
                "include/quarry/device/a.hpp": "x.load(cuda::memory_order_acquire);\n"
                "x.store(1, simt::release);  // later\n"
            },
        )
        self.assertEqual(len(found), 2)

    def test_a_label_may_stand_at_the_end_of_a_broken_expression_but_not_behind_it(self):
        name, argument = "include/quarry/device/a.hpp", "/// (C) pairs with (R).\n"
        broken = argument + "auto const x = y.load(simt::acquire) &\n               mask;  // (C)\n"
        self.assertEqual(self.planted("memory order", {name: broken}), [])
        brace = argument + "void f() {\n  y.store(1, simt::release);\n}  // (C)\n"
        self.assertEqual(len(self.planted("memory order", {name: brace})), 1)
        body = argument + "if (y.load(simt::acquire) == 1)\n  return;  // (C)\n"
        self.assertEqual(len(self.planted("memory order", {name: body})), 1)
        following = argument + "auto const x = y.load(simt::acquire);\nfoo();  // (C)\n"
        self.assertEqual(len(self.planted("memory order", {name: following})), 1)

    def test_a_label_that_no_comment_argues_is_caught(self):
        source = "x.load(cuda::memory_order_acquire);  // (C)\n"
        name = "include/quarry/device/a.hpp"
        self.assertEqual(len(self.planted("memory order", {name: source})), 1)
        self.assertEqual(
            self.planted("memory order", {name: "/// (C) pairs with (R).\n" + source}), []
        )
        self.assertEqual(
            self.planted(
                "memory order", {name: "x.load(simt::relaxed);  // (C) a hint\n" + source}
            ),
            [],
        )

    def test_seq_cst_and_orders_in_comments_need_no_label(self):
        found = self.planted(
            "memory order",
            {
                "include/quarry/device/a.hpp": "x.load();  // memory_order_relaxed would do\n"
                "x.load(cuda::memory_order_seq_cst);\n"
            },
        )
        self.assertEqual(found, [])

    def test_an_exception_lets_a_file_pass_and_is_refused_when_no_file_needs_it(self):
        exceptions = {"length": {"src/a.cpp": "generated"}}
        self.assertEqual(self.planted("length", {"src/a.cpp": "//\n" * 501}, exceptions), [])
        self.assertEqual(len(self.planted("length", {"src/a.cpp": "//\n"}, exceptions)), 1)


if __name__ == "__main__":
    unittest.main()
