#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the classes and reasons of quarry-mpicc --explain with those that a person wrote beside each allocation.

usage: analysis_test.py FOLDER [unittest's arguments]
FOLDER has quarry-mpicc and quarry-mpirun. The programs are in tests/mpi/analysis. A comment at the end of the line of an allocation, or below
the line, says what is expected:

    p = malloc(8);     // CU
    p = malloc(n);     // CV `n` from MPI_Recv
    p = malloc(8);     // NO by `if (rank == 0)`: `rank` from MPI_Comm_rank
    p = malloc(8);     // NO: f is called through a pointer
    return malloc(n);  // [f(8)] CU
                       // [f(rank)] CV `rank` from MPI_Comm_rank
    p = malloc(8);     // NO by `if (rank == 0)`: `rank` from MPI_Comm_rank, one call
    p = malloc(8);     // CU; sync-safe
    p = malloc(8);     // CU; not sync-safe after MPI_Recv(&t

`if (rank == 0)` is a part of the line of the branch. A source is a part of the line that the reason gives, from the name of the function on.
Brackets have a part of the line of the call that leads to the allocation; if it lies on a deeper level, several parts, the innermost first,
each after `<-`. «One call» says that it is merged with others. What follows `after` is a part of the line of the call that waits. All contexts of a line need an expectation. Two allocations of a line need two comments, in the order of the line.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import allocation_oracle
import program_runs

TOOLS = Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else Path("build/dev/mpi").resolve()
SOURCES = Path(__file__).resolve().parent / "analysis"
EXPECTED = re.compile(r"//\s*(?:\[(?P<context>[^\]]*)\] )?(?P<class>CU|CV|NO)(?P<reason>[ :].*?)?(?:; (?P<safety>(?:not )?sync-safe.*))?$")
PLACE = re.compile(r"([^\s,;:]+\.[ch]):(\d+)")
RUNS = ((5, 0), (4, 1), (7, 2))  # numbers of ranks and seeds
ARGUMENTS = ("12", "34")


def run(*words):
    result = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=120, check=False,
                            env=os.environ | {"QUARRY_MPI_DEVICE": "cpu"})
    if result.returncode:
        raise AssertionError(f"{words}: status {result.returncode}\n{result.stdout}{result.stderr}")
    return result.stdout


def expectations(path):
    """The expectations of a source by line. A line that is only a comment belongs to the line before it."""
    found = {}
    site = 0
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.lstrip().startswith("//"):
            site = number
        match = EXPECTED.search(line)
        if not match:
            continue
        found.setdefault(site, []).append((match["context"], match["class"], (match["reason"] or "").rstrip(), match["safety"]))
    return found


class Sources:
    """The lines of the files that places name."""

    def __init__(self, folder):
        self.folder = folder
        self.lines = {}

    def line(self, file, number):
        name = Path(file).name
        if name not in self.lines:
            self.lines[name] = (self.folder / name).read_text().splitlines()
        return re.sub(r"//.*", "", self.lines[name][int(number) - 1])

    def has_context(self, site, wanted):
        """Whether the innermost calls that lead to the site are on lines with the wanted texts."""
        if wanted is None:
            return True
        lines = [self.line(*place) for place in PLACE.findall(site["context"])]
        parts = [part.strip() for part in wanted.split(" <- ")]
        return len(lines) >= len(parts) and all(part in line for part, line in zip(parts, lines))

    def unsafe(self, site, wanted):
        """What is wrong with the answer whether ranks can wait; None if it is right."""
        if wanted is None or (wanted == "sync-safe") != site["sync_safe"]:
            return None if wanted is None else f"sync_safe is {site['sync_safe']}"
        if not site["sync_safe"]:
            wait = wanted.removeprefix("not sync-safe after ")
            found = re.fullmatch(r"(.*) at " + PLACE.pattern, site["wait"])
            if wait != found[1] and wait not in self.line(found[2], found[3]):
                return f"another call waits: {site['wait']}"
        return None

    def disagreement(self, site, wanted_class, wanted, safety):
        """What is wrong with the answer; None if it is right."""
        reason = site["reason"]
        if self.unsafe(site, safety):
            return self.unsafe(site, safety)
        if site["class"] != wanted_class:
            return f"class {site['class']}"
        if ("branch" in site) != ("one call" in wanted):
            return "it is one call with another" if "branch" in site else "it is a call of its own"
        wanted = wanted.removesuffix(", one call")
        if wanted.startswith(": "):
            return None if wanted[2:] in reason else f"`{wanted[2:]}` is missing"
        if wanted_class == "NO" and " by " in " " + wanted:
            branch = re.search(r"by `(.*?)`(?::|$)", wanted)[1]
            place = re.search(r"the (?:branch|loop) at " + PLACE.pattern, reason)
            if not place or branch not in self.line(*place.groups()):
                return f"another branch than {branch}"
        variable = re.search(r"(?:^|: )`([^`]*)` from", wanted)
        if variable and f"`{variable[1]}`" not in reason:
            return f"`{variable[1]}` is missing"
        source = re.search(r"from ([\w(].*)$", wanted)
        if source:
            place = re.search(r"(?:from|on) (\w+|a call through a pointer) at " + PLACE.pattern, reason)
            name = re.match(r"\w+", source[1])[0]
            if not place or place[1] != name or source[1] not in self.line(place[2], place[3]):
                return f"another source than {source[1]}"
        return None


class AnalysisTest(unittest.TestCase):
    """Each program of the folder is a test. A subfolder is a program of several files; lib*.c become a static library."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def inputs(self, path):
        """What to give to quarry-mpicc for a program."""
        if path.is_file():
            return [path]
        libraries = sorted(path.glob("lib*.c"))
        objects = []
        for source in libraries:
            objects.append(self.folder / (source.stem + ".o"))
            run(TOOLS / "quarry-mpicc", "-w", "--cpu-only", "-c", source, "-o", objects[-1])
        archive = self.folder / "libtest.a"
        run("ar", "rc", archive, *objects)
        return [*sorted(set(path.glob("*.c")) - set(libraries)), archive]

    def check(self, path):
        inputs = self.inputs(path)
        folder = path if path.is_dir() else path.parent
        answers = run(TOOLS / "quarry-mpicc", "-w", "--cpu-only", "--explain=json", *inputs).splitlines()
        sites = [json.loads(line) for line in answers]
        sources = Sources(folder)
        problems = []
        used = set()
        for source in sorted(folder.glob("*.c")) if path.is_dir() else [path]:
            for line, wanted in expectations(source).items():
                here = [site for site in sites if Path(site["file"]).name == source.name and site["line"] == line]
                columns = sorted({site["column"] for site in here})
                has_one_each = len(columns) > 1 and len(columns) == len(wanted)
                for index, (context, kind, reason, safety) in enumerate(wanted):
                    mine = [site for site in here if sources.has_context(site, context) and
                            (not has_one_each or site["column"] == columns[index])]
                    title = f"{source.name}:{line}: [{context or ''}] {kind} {reason}"
                    if not mine:
                        problems.append(f"{title}: no such site; sites: {[site['context'] for site in here]}")
                    for site in mine:
                        used.add(json.dumps(site))
                        wrong = sources.disagreement(site, kind, reason, safety)
                        if wrong:
                            problems.append(f"{title}: {wrong}: {site['class']} {site['context']}: {site['reason']}")
        for site in sites:
            if json.dumps(site) not in used:
                problems.append(f"{path.name}:{site['line']}: no expectation for {site}")
        self.assertFalse(problems, "\n" + "\n".join(problems))

    def execute(self, path):
        """Runs the program. All ranks make the collective calls of the classes."""
        inputs = self.inputs(path)
        program = self.folder / "program"
        sites = allocation_oracle.compile_recorded(TOOLS, inputs, program, ["-lm"])
        for ranks, seed in RUNS:
            calls = allocation_oracle.run_recorded(TOOLS, program, ranks, ARGUMENTS, seed)
            self.assertIsNotNone(calls, f"{path.name} fails with {ranks} ranks")
            self.assertTrue(any(calls.values()), "no call was recorded")
            self.assertEqual(allocation_oracle.contradictions(sites, calls), [], f"{ranks} ranks, seed {seed}")

    def test_ranks_meet_at_sync_safe_allocations(self):
        """Programs in which ranks wait for all others at each sync-safe allocation end."""
        for path in sorted(SOURCES.glob("*.c")):
            inputs = self.inputs(path)
            for option, ends in (("--meet-at-safe", True), ("--meet-at-collective", False)):
                if not ends and path.stem not in ("meetings", "unequal_meetings"):
                    continue
                program = self.folder / path.stem
                run(TOOLS / "quarry-mpicc", "-w", "--cpu-only", option, *inputs, "-o", program, "-lm")
                for ranks, seed in RUNS:
                    command = [TOOLS / "quarry-mpirun", "-n", ranks, "--seed", seed, program, *ARGUMENTS]
                    outcome = program_runs.run(command, 60, environment={"QUARRY_MPI_DEVICE": "cpu"})
                    with self.subTest(path.stem, option=option, ranks=ranks, seed=seed):
                        self.assertEqual(outcome.status == 0, ends, outcome.describe())
                        self.assertEqual("deadlock" in outcome.err, not ends, outcome.describe())

    def test_the_programs_have_many_sites(self):
        texts = [path.read_text() for path in SOURCES.rglob("*.c")]
        count = sum(1 for text in texts for line in text.splitlines() if EXPECTED.search(line))
        self.assertGreater(count, 320)


def add_tests():
    for path in sorted(SOURCES.iterdir()):
        setattr(AnalysisTest, f"test_{path.stem}_is_explained", lambda self, path=path: self.check(path))
        setattr(AnalysisTest, f"test_{path.stem}_runs", lambda self, path=path: self.execute(path))


add_tests()

if __name__ == "__main__":
    unittest.main()
