#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each target, program, preset and test that the Makefile and the scripts name exists in CMake. GPU MPI's sources are in both builds."""

import json
import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DECLARATION = re.compile(
    r"\b(?:add_executable|add_library|add_custom_target|quarry_add_library|quarry_add_tests"
    r"|quarry_add_program|quarry_add_gpu_tests|quarry_add_(?:program_over|checked_program)\([\w:]+)[( ]\s*([^\s()]+)"
)
TEST = re.compile(r"add_test\(NAME ([^\s()]+)")
LOOP = re.compile(r"foreach\((\w+) ([^)]*)\)")
VARIABLE = re.compile(r"\$\{(\w+)\}")
# `build PRESET TARGET...`, but not the word in a comment or in a path.
BUILD = re.compile(r"(?:^|[;&|@(]\s*|\s(?:if|!|do|then)\s+|[A-Z_]+=\w+ )build ([^;&|#\n)]+)")
TARGET = re.compile(r"--target ([^;&|\n]+)")
PROGRAM = re.compile(r"build/[$\w{}]+/(?:tests|bench|examples|mpi|fortran)/([$\w.{},-]+)")
PRESET = re.compile(r"--preset ([\w-]+)")
CTEST = re.compile(r"\bctest\b[^;\n]*-R '?([^' \n]+)")
RUN_TESTS = re.compile(r"scripts/run_tests\.sh ([a-z][\w -]*)")
NAME = re.compile(r"[a-z][\w.-]*$")
# Sources of GPU MPI that only the host runs.
HOST_SOURCES = {"host_files.cpp", "wait_graph.cpp"}


def users(root=ROOT):
    """The Makefile and the scripts that build or run something."""
    return [root / "Makefile", root / ".ci/run", *sorted((root / "scripts").glob("*.sh"))]


def declared(root=ROOT):
    """(targets, tests) of the CMake files. A name with a loop's variable stands for a name with each of the loop's words."""
    targets, tests = set(), set()
    files = [root / "CMakeLists.txt", *root.glob("cmake/*.cmake"), *root.glob("*/CMakeLists.txt"), *root.glob("*/*/CMakeLists.txt")]
    for path in files:
        text = "\n".join(line.split("#", 1)[0] for line in path.read_text(encoding="utf-8").splitlines())
        words = {}
        for variable, values in LOOP.findall(text):
            words.setdefault(variable, set()).update(word.split(".")[0] for word in values.split())
        words.setdefault("name", set()).update(words.pop("name_and_suffix", []))
        words["name"].update(source.stem for source in path.parent.glob("*_bench.cpp"))
        for names, pattern in ((targets, DECLARATION), (tests, TEST)):
            for name in pattern.findall(text):
                if found := VARIABLE.search(name):
                    names |= {name.replace(found[0], word) for word in words.get(found[1], [])}
                else:
                    names.add(name)
        tests |= {f"{program}.1" for program in re.findall(r"quarry_add_tests\(([\w.]+)", text)}
    return targets, tests


def presets(root=ROOT):
    return {preset["name"] for preset in json.loads((root / "CMakePresets.json").read_text())["configurePresets"]}


def expanded(word):
    """The names that the shell makes of a word with braces."""
    if found := re.search(r"(?<!\$)\{([^{}]*)\}", word):
        return [
            name
            for choice in found.group(1).split(",")
            for name in expanded(word[: found.start()] + choice + word[found.end() :])
        ]
    return [word]


def named(text):
    """(targets, presets, patterns of tests) that a Makefile or a script names. Words with variables are left out."""
    code = "\n".join(line for line in text.replace("\\\n", " ").splitlines() if not line.lstrip().startswith("#"))
    code = re.sub(r"(?m)\s## .*$", "", code)
    targets, used_presets = set(), set(PRESET.findall(code))
    for arguments in BUILD.findall(code):
        preset, *words = arguments.replace('"', "").split()
        if NAME.match(preset):
            used_presets.add(preset)
        targets |= {name for word in words for name in expanded(word)}
    for arguments in TARGET.findall(code):
        targets |= set(arguments.replace('"', "").split()[:1])
    targets |= {name for word in PROGRAM.findall(code) for name in expanded(word)}
    for arguments in RUN_TESTS.findall(code):
        used_presets |= set(arguments.split()) - {"python", "cuda-all"}  # words of run_tests.sh
    return {name for name in targets if NAME.match(name)}, used_presets, set(CTEST.findall(code))


def missing(text, targets, tests, known_presets):
    wanted, used_presets, patterns = named(text)
    return sorted(
        [f"target {name}" for name in wanted - targets]
        + [f"preset {name}" for name in used_presets - known_presets]
        + [f"test {pattern}" for pattern in patterns if not any(re.search(pattern, test) for test in tests)]
    )


class Targets(unittest.TestCase):
    def test_each_name_in_the_makefile_and_the_scripts_exists(self):
        targets, tests = declared()
        for path in users():
            found = missing(path.read_text(encoding="utf-8"), targets, tests, presets())
            self.assertEqual(found, [], f"{path.relative_to(ROOT)} names what CMake does not have")

    def test_names_are_found_in_each_form(self):
        self.assertEqual(
            named("x: ## build old words\n\t@build rmm one two; ctest --preset rmm -R '^rmm'\n")[0], {"one", "two"}
        )
        self.assertEqual(named("install build/cuda/tests/gpu_{,rdc_}tests")[0], {"gpu_tests", "gpu_rdc_tests"})
        self.assertEqual(named('cmake --build "$b" --target three || fail')[0], {"three"})
        self.assertEqual(named("A=ON build cuda four || x\nif ! build dev $five; then")[:2], ({"four"}, {"cuda", "dev"}))
        self.assertEqual(named("scripts/run_tests.sh apart asan python\n")[1], {"apart", "asan"})
        self.assertEqual(named("# build dev six\nrm -rf build dist\n")[0], set())

    def test_a_name_that_is_missing_is_reported(self):
        text = "\t@build rmm rmm.old_test; ctest --preset odd -R '^rmm\\.'\n"
        self.assertEqual(
            missing(text, {"rmm_tests"}, {"rmm_tests.1"}, {"rmm"}),
            ["preset odd", "target rmm.old_test", "test ^rmm\\."],
        )

    def test_the_gpus_runtime_includes_each_source_of_the_runtime(self):
        layer = re.search(r"SOURCES(.*?)TESTS", (ROOT / "src/mpi/layer.cmake").read_text(), re.DOTALL)
        included = re.findall(r'#include "(\w+\.cpp)"', (ROOT / "src/mpi/runtime.cu").read_text())
        self.assertEqual(set(included) | HOST_SOURCES, set(layer[1].split()))
        self.assertFalse(set(included) & HOST_SOURCES)


if __name__ == "__main__":
    unittest.main()
