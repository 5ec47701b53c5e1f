#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""README and docs show the figures of bench/results, as scripts/figures writes them.

The test refuses a measurement that is typed into a page of docs/design, except in LOG, or into a
guide with measured parts. LOG records experiments and their conditions, and is not updated. A file that a page names must exist.
"""

import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DESIGN = ROOT / "docs" / "design"
sys.path.insert(0, str(ROOT))
from scripts.figures import heuristics, pages  # noqa: E402
from scripts.figures.claims import CLAIMS  # noqa: E402
from scripts.figures.heuristics import PUBLISHED_OUTCOMES, Outcome  # noqa: E402
from scripts.figures.mpi import MPI, others  # noqa: E402
from scripts.figures.records import Records  # noqa: E402
from scripts.figures.table import Table, ratio, value  # noqa: E402
from scripts.figures.training import training  # noqa: E402

PAGE = "coalescing.md"
LOG = "measurement_log.md"

# Numbers of the design that look like measurements: page -> words -> why they are not measurements.
# An entry that its page does not need is also refused.
CONSTANTS = {
    "coalescing.md": {
        "12,288 threads": "the benchmark's threads",
        "2, 3 and 4.1": "sections of the paper",
    },
    "heap.md": {
        "after 2 ms": "slice_supply's patience",
        "after 0.5 ms": "the same, if no slice can be returned",
        "after 10 ms": "the same, in all, in a nearly full heap",
        "after 0.2 s": "the same, in all",
        "After 3 ms": "the same, for freed slices",
        "0.25 ms": "patience's longest step",
    },
    "lane_arrays.md": {},
    "opencl.md": {
        "78 % of a span": "follows from the size classes; a test checks it",
        "2,000 ns at most": "a goal",
        "9,800 ns a pair": "a figure of the seed, figure 4",
        "200 ms for 4,608": "a figure of the seed, figure 5",
        "PoCL 3.1": "a version",
        "| 4,608 work-items": "a parameter of the benchmark",
        "10 allocations of 4": "a parameter of the benchmark",
        "over 10,000 nodes": "a parameter of the benchmark",
    },
    "pool_costs.md": {"1000 allocations": "a parameter of the benchmark"},
    "pools.md": {"The goal is 1.3": "a goal", "8 × 8": "a mesh", "section 6.4": "of a book"},
    "registry.md": {
        "1000 allocations": "a parameter of the benchmark",
        "10 and 40 ns": "goals",
        "section\n6.4": "of a book",
    },
    "simt.md": {},
    "pytorch.md": {"PyTorch 2.11": "a version", "CUDA 13.0": "a version"},
    "traces.md": {"goal of 20 ns": "a goal"},
    "streams.md": {
        "CCCL 3.0": "a version",
        "since 3.1": "a version",
        "3.0, 3.1, 3.2 and 3.5": "versions",
    },
}

WRITTEN = re.compile(
    r"<!-- figures:([\w-]+):begin -->.*?<!-- figures:\1:end -->"
    r"|<!-- value:[\w-]+ -->.*?<!-- /value -->",
    re.DOTALL,
)
PICTURE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\([^)]*\)")
NUMBER = r"\d+(?:,\d{3})*(?:\.\d+)?"
WORD = "(?:half|two|three|four|five|six|seven|eight|nine|ten|twenty|thirty|fifty|hundred)"
MEASUREMENTS = [re.compile(pattern) for pattern in (
    # a time, a rate, a share, a factor, a count of events
    rf"{NUMBER}\s*(?:ns|µs|us|ms|s|seconds?|[KMG]i?B/s|million|[KMG]ops(?:/s)?|cycles|instructions"
    r"|registers|allocations|%|percent|×|x)(?!\w)",
    # a factor in words
    rf"(?i)\b(?:{NUMBER}|{WORD}) times (?:as|the|faster|slower|more|less|larger|smaller)\b",
    rf"(?i)\b(?:a|one|{WORD}) (?:half|third|quarter|fifth|sixth|eighth|tenth)s? "
    r"(?:faster|slower|more|less)\b",
    # a fraction of a unit of memory, and any other fraction
    r"\d+\.\d+",
    # a number in thousands that is not a power of two
    r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d,])",
)]  # fmt: skip


def is_power_of_two(text):
    digits = text.replace(",", "")
    return digits.isdigit() and int(digits) & (int(digits) - 1) == 0


def typed_measurements(text, constants=()):
    """The measurements in a page, and the `constants` that the page does not need."""

    def blank(match):  # keeps the line numbers
        return "\n" * match.group(0).count("\n")

    text = PICTURE.sub(blank, WRITTEN.sub(blank, text))
    text = LINK.sub("]", text)
    unused = []
    for words in constants:  # a line may break these words
        text, count = re.subn(r"\s+".join(map(re.escape, words.split())), blank, text)
        unused += [words] if count == 0 else []
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        for pattern in MEASUREMENTS:
            found += [
                f"line {number}: '{match.group(0)}'"
                for match in pattern.finditer(line)
                if not is_power_of_two(match.group(0))
            ]
    return found, unused


def check(design=None):
    """The exit status of `python3 -m scripts.figures --check`, and its output."""
    command = [sys.executable, "-m", "scripts.figures", "--check"]
    if design:
        command += ["--design", design]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


class Figures(unittest.TestCase):
    def changed(self, old, new, page=PAGE):
        """The result of `check` after the first `old` of one page is replaced by `new`."""
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(DESIGN, folder, dirs_exist_ok=True)
            path = Path(folder) / page
            text = path.read_text(encoding="utf-8")
            self.assertIn(old, text)
            path.write_text(text.replace(old, new, 1), encoding="utf-8")
            return check(folder)

    def test_pages_show_the_results(self):
        status, output = check()
        self.assertEqual(status, 0, output)

    def test_a_figure_typed_by_hand_is_refused(self):
        status, output = self.changed("header-warp 2", "header-warp 1")
        self.assertEqual(status, 1)
        self.assertIn(f"{PAGE} does not show", output)

    def test_a_page_without_one_of_its_parts_is_refused(self):
        status, output = self.changed("<!-- figures:claims:begin -->", "")
        self.assertEqual(status, 1)
        self.assertIn(f"{PAGE} has the parts []; it must have ['claims']", output)

    def test_a_figure_typed_into_a_sentence_is_refused(self):
        marker = "<!-- value:registers -->"
        status, output = self.changed(f"{marker}4", f"{marker}3", "heap.md")
        self.assertEqual(status, 1)
        self.assertIn("heap.md does not show", output)

    def test_a_figure_in_a_sentence_without_a_measurement_is_refused(self):
        status, output = self.changed("<!-- value:registers -->", "<!-- value:luck -->", "heap.md")
        self.assertEqual(status, 1)
        self.assertIn("shows the value 'luck'", output)


class TypedMeasurements(unittest.TestCase):
    def test_only_the_log_has_typed_measurements(self):
        texts = sorted(DESIGN.glob("*.md")) + [ROOT / name for name in pages.GUIDES]
        self.assertIn(DESIGN / LOG, texts)
        problems = []
        for path in texts:
            if path.name == LOG:
                continue
            constants = CONSTANTS.get(path.name, {})
            found, unused = typed_measurements(path.read_text(encoding="utf-8"), constants)
            problems += [f"{path.name}: {text}: is not from bench/results" for text in found]
            problems += [f"{path.name}: '{words}' is in CONSTANTS, not in the page" for words in unused]
        self.assertEqual(problems, [], "\n" + "\n".join(problems))

    def test_scripts_write_every_page_except_the_log(self):
        names = {path.name for path in DESIGN.glob("*.md")} - {LOG}
        self.assertEqual(names, set(pages.DESIGN))

    def test_a_design_page_has_one_table_at_most_and_links_to_its_others(self):
        headings = re.findall(r"^### (.*)$", (DESIGN.parent / "plots/README.md").read_text(encoding="utf-8"), re.M)
        for name, tables in pages.DESIGN.items():
            self.assertLessEqual(len(tables), 1, name)
            text = (DESIGN / name).read_text(encoding="utf-8")
            for title in pages.APART.get(name, {}).values():
                self.assertIn(title, headings)
                anchor = re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")
                self.assertIn(f"(../plots/README.md#{anchor})", text)

    def test_the_log_would_be_refused_as_a_design_page(self):
        found, _ = typed_measurements((DESIGN / LOG).read_text(encoding="utf-8"))
        self.assertGreater(len(found), 50)

    def test_each_kind_of_measurement_is_caught(self):
        for text in (
            "A pair takes 37 ns.",
            "It took 1,240 µs.",
            "It gives up after 2 ms.",
            "malloc runs at 900 MiB/s.",
            "11 million edges",
            "106 Gops",
            "3,490 Mops/s",
            "It is 3 × as fast.",
            "It is three times as fast.",
            "It is 4 times faster.",
            "A tenth of that is a fifth slower: a fifth more.",
            "18 % in place of 5 %",
            "The state takes 0.1 MiB.",
            "The factor is 2.78.",
            "| malloc | 25,100 |",
            "It runs 170 instructions.",
            "A kernel has 208 registers.",
        ):
            self.assertNotEqual(typed_measurements(text)[0], [], text)

    def test_sizes_of_the_design_pass(self):
        for text in (
            "A block holds 1,024 slices of 64 KiB.",
            "A slice is 16 bytes, a mask 32 bits.",
            "Version 2 has 3 owners.",
            "Up to 2^20 uses.",
            "```\nblock 0 takes 40 ns\n```",
            "<!-- figures:a:begin -->\n3.14 ns\n<!-- figures:a:end -->",
            "It takes <!-- value:a -->40 ns<!-- /value --> to find.",
            "[the guide](../guide/1.5.md)",
        ):
            self.assertEqual(typed_measurements(text)[0], [], text)

    def test_an_exception_lets_words_pass_and_is_refused_without_these_words(self):
        self.assertEqual(typed_measurements("It waits 2 ms.", ["2 ms"]), ([], []))
        self.assertEqual(typed_measurements("It waits 2\nms.", ["2 ms"]), ([], []))
        self.assertEqual(typed_measurements("It waits.", ["2 ms"]), ([], ["2 ms"]))


class Engine(unittest.TestCase):
    """What a specification of a table makes of records."""

    def table(self, *records, **more):
        """A table of these (machine, allocator, bytes, value): rows are sizes."""
        table = Table(
            rows={f"{size} B": {"bench": "b", "bytes": size} for size in (8, 16)},
            columns={
                "a": {"allocator": "quarry"},
                "÷": ratio({"allocator": "other"}, {"allocator": "quarry"}),
            },
            cell=value(),
            head="{machine}, {origin}",
            missing="`b`",
            **more,
        )
        return table(Records([self.record(*each) for each in records]))

    def record(self, machine, allocator, size, number, date="2026-01-02", **params):
        params |= {"allocator": allocator, "bytes": size}
        where = {"machine": machine, "date": date, "commit": f"commit {number}"}
        return {"bench": "b", "params": params, "value": number, "unit": "ns"} | where

    def test_a_table_shows_the_first_machine_and_the_origin_of_its_points_alone(self):
        lines = self.table(
            ("x86", "quarry", 8, 1),
            ("nvidia", "quarry", 8, 2),
            ("nvidia", "other", 8, 3),
            ("nvidia", "other", 16, 4),
        )
        self.assertEqual(
            lines,
            [
                "| nvidia, 2026-01-02, commits commit 2, commit 3 | a | ÷ |",
                "|---|---:|---:|",
                "| 8 B | 2 | 1.5 |",
            ],
        )

    def test_a_later_record_replaces_an_earlier_one_and_a_failure_has_no_number(self):
        old, new = ("m", "quarry", 8, 5, "2026-01-01"), ("m", "quarry", 8, 6, "2026-01-03")
        self.assertEqual(self.table(new, old)[2:], ["| 8 B | 6 | – |"])
        self.assertEqual(self.table(old, ("m", "quarry", 8, None)), self.table())

    def test_each_machine_can_have_a_table_and_rows_without_points_can_stay(self):
        records = [("m", "quarry", 8, 1), ("n", "quarry", 16, 2)]
        self.assertEqual([line[:6] for line in self.table(*records, each=True)[2::2]], ["| 8 B ", "| n, 2", "| 16 B"])
        self.assertEqual(self.table(*records, keep=True)[3:], ["| 16 B | – | – |"])

    def test_without_records_the_program_is_named(self):
        self.assertEqual(self.table(), ["Not measured yet: `make bench` runs `b`."])
        self.assertEqual(self.table(("m", "quarry", 8, 1), needs=("other",)), self.table())


class Training(unittest.TestCase):
    """The table of bench/python_plugins.py."""

    def record(self, measure, value, date="2026-01-02", commit="c", **params):
        params = {"allocator": "quarry", "measure": measure, "runs": 3} | params
        return {
            "bench": "python/plugins/training_gpt",
            "params": params,
            "value": value,
            "unit": "",
            "machine": "nvidia-x",
            "date": date,
            "commit": commit,
        }

    def test_each_session_of_the_last_day_has_its_rows(self):
        records = [
            self.record("step_ms", 9, date="2026-01-01", commit="old"),
            self.record("step_ms", 20.04),
            self.record("step_ms spread", 1.234),
            self.record("peak_reserved", 3 << 30, first_block="4GiB"),
            self.record("step_ms", 25, commit="d", allocator="pool"),
        ]
        lines = training(Records(records))
        self.assertIn("a factor of up to 1.23:", lines[1])
        self.assertEqual(
            lines[5:],
            [
                "| `use()` | c, 3 runs | 20 | – | – | – |",
                "| `use()`, blocks: 4GiB | c, 3 runs | – | 3 | – | – |",
                "| `pool()` | d, 3 runs | 25 | – | – | – |",
            ],
        )

    def test_without_records_the_program_is_named(self):
        self.assertEqual(training(Records([])), ["Not measured yet: `bench/python_plugins.py`."])


class MpiTables(unittest.TestCase):
    def record(self, system, value, host="g", bench="mpi/ring/hop", **params):
        params = {"system": system, "host": host, "ranks": 2} | params
        spread = {"p10": value - 1, "p90": value + 1}
        where = {"machine": f"{system} on {host}", "date": "2026-01-02", "commit": "c"}
        return {"bench": bench, "params": params, "value": value, "unit": "us", "spread": spread} | where

    def failed(self, system, **params):
        params |= {"error": "exit status 124"}
        return self.record(system, 0, bench="mpi/failed", **params) | {"value": None, "unit": ""}

    def costs(self, records):
        return MPI["costs"](Records(records))

    def test_a_row_has_both_systems_and_says_whether_the_goal_is_met(self):
        lines = self.costs(
            [
                self.record("quarry-gpu", 9),
                self.record("quarry-gpu", 4.0),
                self.record("open-mpi", 3),
                self.record("quarry-gpu", 1, ranks=3),
                self.record("quarry-gpu", 1, ranks=5),
                self.failed("quarry-gpu", ranks=5, program="ring"),
                self.record("quarry-cpu", 8, host="without a GPU"),
                self.record("quarry-gpu", 20.0, "g", "mpi/ping_pong/bandwidth", bytes=1 << 20, buffer="heap"),
            ]
        )
        self.assertEqual(
            [line.split(" | ")[1:] for line in lines[4:]],
            [
                ["2", "µs", "20 (19–21)", "–", "–", "≥ 30: **missed** |"],
                ["2", "µs", "4 (3–5)", "–", "3 (2–4)", "≤ 1.2: **missed** |"],
                ["3", "µs", "1 (0–2)", "–", "–", "≤ 1.2: met |"],
                ["5", "", "no end in time", "–", "–", "≤ 1.2: **missed** |"],
            ],
        )
        self.assertEqual(self.costs([self.record("open-mpi", 3)])[0][:16], "Not measured yet")

    def test_a_program_has_a_row_for_its_last_commit(self):
        def tried(device, equal, commit="b", reason="", ranks=(4,)):
            params = {"repository": "o/r", "program": "p", "commit": commit, "device": device}
            params |= {"ranks": ranks, "compiles": True, "equal": equal, "reason": reason}
            where = {"machine": "m", "date": "2026-01-02", "value": 1, "unit": ""}
            return {"bench": "mpi/others", "params": params} | where

        records = [
            tried("gpu", True, commit="a"),
            tried("cpu", False, reason="x"),
            tried("cpu", True, ranks=(4, 1000)),
            tried("gpu", False, reason="no stack"),
        ]
        lines = others(Records(records))
        self.assertIn("Equal output: 1 of 1 on the CPU, 0 of 1 on the GPU.", lines[0])
        self.assertEqual(lines[-1], "| p | o/r b | yes | yes (4, 1,000) | **no** | no stack |")


class Verdicts(unittest.TestCase):
    """A claim's verdict follows from the figures beside the claim."""

    def claim_a(self, header, map_):
        class Cases:
            platform = "cuda"

            def value(self, phase, workload, mode, grid, allocator, floats):
                return {"cuda": 6.0, "cuda+header-warp": header, "cuda+map-warp": map_}[allocator]

        return CLAIMS[0].verdict(Cases(), "none")

    def test_a_condition_that_the_figures_meet_is_a_yes(self):
        self.assertEqual(self.claim_a(1.5, 2.0), "yes: header-warp 4, map-warp 3")

    def test_a_condition_that_one_figure_misses_is_a_no(self):
        self.assertEqual(self.claim_a(1.5, 2.4), "no: header-warp 4, map-warp 2.5")

    def test_a_claim_with_an_unmeasured_figure_has_no_verdict(self):
        self.assertEqual(self.claim_a(1.5, None), "not measured")


class PosterClaims(unittest.TestCase):
    """The verdicts on the poster's claims follow from the outcomes of a trace."""

    def changed(self, **settings):
        """The poster's own outcomes, except for these: `blocks_2_cbg=(coalesces, overhead)`."""
        outcomes = dict(PUBLISHED_OUTCOMES)
        for name, figures in settings.items():
            kind, number, *variant = name.split("_")
            outcomes["+".join([f"{kind}:{number}", *variant])] = Outcome(*figures)
        return outcomes

    def test_the_poster_has_sixteen_outcomes_of_nineteen_settings(self):
        self.assertEqual(len(heuristics.SETTINGS), 19)
        self.assertEqual(len(PUBLISHED_OUTCOMES), 16)
        self.assertLess(set(PUBLISHED_OUTCOMES), set(heuristics.SETTINGS))

    def test_the_front_has_no_outcome_that_another_one_beats(self):
        outcomes = [Outcome(3, 9), Outcome(1, 20), Outcome(3, 8), Outcome(4, 8), Outcome(9, 2)]
        self.assertEqual(heuristics.front_of(outcomes), [Outcome(1, 20), Outcome(3, 8), Outcome(9, 2)])

    def test_claims_hold_for_the_poster_itself(self):
        for judge in (heuristics.calls_fall, heuristics.memory_grows, heuristics.cbg_calls_least, heuristics.percent_reserves_most):
            self.assertTrue(judge(PUBLISHED_OUTCOMES).startswith("yes"), judge)
        self.assertEqual(heuristics.steps_that_grow(PUBLISHED_OUTCOMES), "8 of 12")

    def test_one_other_outcome_changes_the_verdict(self):
        more_calls = self.changed(blocks_12=(45, 17), blocks_7_cbg=(13, 13))
        self.assertEqual(heuristics.calls_fall(more_calls), "in part: 44 → 45, 47 → 9, 10 → 4")
        self.assertEqual(heuristics.cbg_calls_least(more_calls), "in part: 4 of 5")
        self.assertTrue(heuristics.memory_grows(self.changed(blocks_12_cbg=(4, 9))).startswith("in part"))
        self.assertTrue(heuristics.percent_reserves_most(self.changed(blocks_5=(18, 73))).startswith("no"))

    def test_a_percentage_must_coalesce_and_be_unbeaten_to_be_on_the_front(self):
        ended = {"percent_50": (3, 4), "percent_75": (0, 50), "percent_90": (90, 90)}
        self.assertEqual(heuristics.percent_on_front(self.changed(**ended)), "yes: Percent(50)")
        beaten = self.changed(**ended, blocks_2=(2, 4))
        self.assertEqual(heuristics.percent_on_front(beaten), "no")

    def test_percentages_have_places_by_cost(self):
        costs = {"percent_50": 3, "percent_75": 1, "percent_90": 2}
        outcomes = self.changed(**{name: (1, 1, 1, cost) for name, cost in costs.items()})
        only = {name: each for name, each in outcomes.items() if each.cost_ms}
        self.assertEqual(heuristics.percent_places(only), "3, 1, 2")


def named_files(text):
    """The names of headers and programs in a page, without their folders."""
    return set(re.findall(r"`(?:[\w./-]*/)?(\w+\.(?:hpp|cuh|h|cpp|py|f90))`", text))


class NamedFiles(unittest.TestCase):
    def test_each_file_that_a_design_page_names_exists(self):
        folders = ("include", "src", "compiler", "tests", "bench", "scripts", "fortran", "examples")
        existing = {path.name for folder in folders for path in (ROOT / folder).rglob("*.*")}
        missing = {
            f"{path.name}: {name}"
            for path in DESIGN.glob("*.md")
            for name in named_files(path.read_text(encoding="utf-8")) - existing
        }
        self.assertEqual(missing, set())

    def test_names_are_found_with_and_without_a_folder(self):
        text = "`bit_tree.hpp`, `simt/far_call.hpp` and *x.hpp*; `tests/a_test.cpp`"
        self.assertEqual(named_files(text), {"bit_tree.hpp", "far_call.hpp", "a_test.cpp"})


if __name__ == "__main__":
    unittest.main()
