#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""C++ code in README and docs/guide is code of examples/. CI builds it, and runs it where possible.

A page shows code in a ```cpp block whose first line is a comment that names a file:

    ```cpp
    // examples/host_pools.cpp
    quarry::pool numbers{quarry::host_resource{}};
    ```

The lines below the comment must stand in that file, one after the other. The file may indent all of them by
the same number of spaces. The file must be listed in examples/CMakeLists.txt.

CONTRIBUTING has a table of claims: each row ends with a file and with functions that the file has.
"""

import re
import tempfile
import textwrap
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

FENCE = re.compile(r"^\s*(`{3,}|~{3,})\s*(\S*)")
CPP = {"cpp", "c++", "cxx", "cc", "hpp", "cuda", "cu"}
SOURCE = re.compile(r"^// (examples/\S+)$")
CLAIM = re.compile(r"^\| [^|]* \| `([\w./]+\.\w+)` \| ((?:`\w+`(?:, )?)+) \|$")


def blocks(text):
    """(line number, language, lines) of each fenced block."""
    found = None
    for number, line in enumerate(text.splitlines(), 1):
        fence = FENCE.match(line)
        if found is None:
            if fence:
                found = (number, fence.group(2).lower(), [])
                end = fence.group(1)
        elif fence and fence.group(1).startswith(end) and not fence.group(2):
            yield found
            found = None
        else:
            found[2].append(line)
    if found is not None:
        yield found


def shape(lines):
    """The lines without their common indentation, and without blank lines at both ends."""
    return textwrap.dedent("\n".join(lines)).strip("\n").splitlines()


def is_part(snippet, source):
    """True if the lines of `snippet` stand in `source`, one after the other."""
    wanted = shape(snippet)
    count = len(wanted)
    return count > 0 and any(
        textwrap.dedent("\n".join(source[i : i + count])).splitlines() == wanted
        for i in range(len(source) - count + 1)
    )


def problem_of(root, language, lines):
    """The problem of a block, or None."""
    if language not in CPP:
        return None
    if language != "cpp":
        return f"a block of C++ begins with ```cpp, not ```{language}"
    source = SOURCE.match(lines[0]) if lines else None
    if not source:
        return "the first line of a ```cpp block must be `// examples/NAME.cpp`"
    path = root / source.group(1)
    if not path.is_file():
        return f"there is no {source.group(1)}"
    listed = (root / "examples/CMakeLists.txt").read_text(encoding="utf-8")
    name = path.relative_to(root / "examples").as_posix()
    if not re.search(rf"(?<![\w./-]){re.escape(name)}(?![\w./-])", listed):
        return f"examples/CMakeLists.txt does not build {name}"
    if not is_part(lines[1:], path.read_text(encoding="utf-8").splitlines()):
        return f"these lines are not in {source.group(1)}"
    return None


def snippets(root):
    """(path, line number, language, lines) of each C++ block of README and docs/guide."""
    for path in [root / "README.md", *sorted((root / "docs/guide").rglob("*.md"))]:
        if not path.is_file():
            continue
        for number, language, lines in blocks(path.read_text(encoding="utf-8")):
            if language in CPP:
                yield path, number, language, lines


def claim_problems(root):
    """A line for each row of the table of claims in CONTRIBUTING whose file or function does not exist."""
    page = root / "CONTRIBUTING.md"
    if not page.is_file():
        return
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        row = CLAIM.match(line)
        if not row:
            continue
        path = root / row.group(1)
        source = path.read_text(encoding="utf-8") if path.is_file() else ""
        for function in re.findall(r"\w+", row.group(2)):
            if not re.search(rf"\b{function}\(", source):
                yield f"CONTRIBUTING.md:{number}: {row.group(1)} has no function {function}"


def violations(root):
    found = list(claim_problems(root))
    for path, number, language, lines in snippets(root):
        problem = problem_of(root, language, lines)
        if problem:
            found.append(f"{path.relative_to(root).as_posix()}:{number}: {problem}")
    return found


class Snippets(unittest.TestCase):
    def test_each_block_of_the_guide_is_a_part_of_an_example(self):
        self.assertTrue(any(snippets(ROOT)), f"no C++ in {ROOT}/docs/guide: nothing was checked")
        page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").splitlines()
        self.assertTrue(any(map(CLAIM.match, page)), "CONTRIBUTING has no table of claims")
        found = violations(ROOT)
        if found:
            self.fail("\n" + "\n".join(found))

    def test_readme_is_short(self):
        lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
        self.assertLessEqual(len(lines), 150, "move the rest to docs/guide or CONTRIBUTING.md")


class PlantedViolations(unittest.TestCase):
    """Pages that break the rule, and pages that follow it."""

    EXAMPLE = "int main() {\n  int a = 1;\n\n  if (a) {\n    a = 2;\n  }\n}\n"

    def planted(self, page, listed="add_executable(one one.cpp)\n"):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder).resolve()
            for name, text in {
                "docs/guide/page.md": page,
                "examples/CMakeLists.txt": listed,
                "examples/one.cpp": self.EXAMPLE,
            }.items():
                path = root / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            return violations(root)

    def block(self, *lines, language="cpp"):
        return "\n".join([f"```{language}", *lines, "```", ""])

    def test_a_part_of_the_example_passes_at_any_indentation(self):
        for lines in (
            ("int a = 1;", "", "if (a) {", "  a = 2;", "}"),
            ("  int a = 1;",),
            ("a = 2;",),
        ):
            page = self.block("// examples/one.cpp", *lines)
            self.assertEqual(self.planted(page), [], lines)

    def test_lines_that_are_not_in_the_example_are_caught(self):
        for lines in (
            ("int a = 2;",),  # another value
            ("int a = 1",),  # a part of a line
            ("int a = 1;", "if (a) {"),  # a line left out
            ("if (a) {", "a = 2;", "}"),  # another indentation inside
            (),
        ):
            found = self.planted(self.block("// examples/one.cpp", *lines))
            self.assertEqual(len(found), 1, lines)
            self.assertIn("docs/guide/page.md:1: these lines are not in", found[0])

    def test_a_block_without_its_file_is_caught_in_the_middle_of_a_page(self):
        page = "# Page\n" + self.block("// examples/one.cpp", "a = 2;") + self.block("a = 2;")
        found = self.planted(page)
        self.assertEqual(len(found), 1)
        self.assertIn("docs/guide/page.md:6: the first line", found[0])

    def test_an_empty_block_and_a_block_without_an_end_are_caught(self):
        self.assertIn("the first line", self.planted(self.block())[0])
        self.assertIn("the first line", self.planted("```cpp\na = 2;\n")[0])

    def test_a_file_that_is_missing_or_not_built_is_caught(self):
        self.assertIn("there is no", self.planted(self.block("// examples/two.cpp", "a = 2;"))[0])
        page = self.block("// examples/one.cpp", "a = 2;")
        for listed in ("", "add_executable(one another_one.cpp)\n"):
            self.assertIn("does not build one.cpp", self.planted(page, listed)[0])

    def test_a_claim_about_a_missing_file_or_function_is_caught(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder).resolve()
            (root / "one.hpp").write_text("int f(int a);\nint g;\n", encoding="utf-8")
            (root / "CONTRIBUTING.md").write_text(
                "| claim | `one.hpp` | `f` |\n"
                "| claim | `one.hpp` | `f`, `g` |\n"
                "| claim | `two.hpp` | `f` |\n",
                encoding="utf-8",
            )
            self.assertEqual(
                violations(root),
                [
                    "CONTRIBUTING.md:2: one.hpp has no function g",
                    "CONTRIBUTING.md:3: two.hpp has no function f",
                ],
            )

    def test_other_words_for_cpp_are_caught_and_other_languages_pass(self):
        for language in ("c++", "C++", "cuda"):
            self.assertIn("begins with ```cpp", self.planted(self.block("a", language=language))[0])
        for language in ("sh", "c", "fortran", ""):
            self.assertEqual(self.planted(self.block("a", language=language)), [])


if __name__ == "__main__":
    unittest.main()
