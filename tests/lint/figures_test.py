#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""README and docs show the figures of bench/results, as scripts/figures writes them.

The test refuses a measurement that is typed into a page of docs/design, except in pages.LOG,
or into a guide with measured parts. The log records experiments and their conditions, and is not
updated. A file that a page names must exist.
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
from scripts.figures.heuristics import Claims, Outcome  # noqa: E402
from scripts.figures.records import Records, read, select  # noqa: E402
from scripts.figures.specs import NAMES, TABLES  # noqa: E402
from scripts.figures.table import Table, View, lines  # noqa: E402


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
    "opencl.md": {
        "78 % of a span": "follows from the size classes; a test checks it",
        "2,000 ns at most": "a goal",
        "9,800 ns a pair": "a figure of the seed, figure 4",
        "200 ms for 4,608": "a figure of the seed, figure 5",
    },
    "pool_costs.md": {"1000 allocations": "a parameter of the benchmark"},
    "pools.md": {
        "25 ns in the second column, 40 ns in the third, and 60 ns": "goals",
        "goal of 1.3 times": "a goal",
        "8 × 8": "a mesh",
        "section 6.4": "of a book",
    },
    "registry.md": {
        "1000 allocations": "a parameter of the benchmark",
        "10 and 40 ns": "goals",
        "section\n6.4": "of a book",
    },
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
    r"|<!-- value:[^>]+ -->.*?<!-- /value -->",
    re.DOTALL,
)
PICTURE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
PLOT = re.compile(r"\(([\w.-]+\.(?:png|svg))\)")
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


def check(root=ROOT):
    """The exit status of `python3 -m scripts.figures --check`, and its output."""
    command = [sys.executable, "-m", "scripts.figures", "--check", "--root", root]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


class Pages(unittest.TestCase):
    DATA = read()

    def rewritten(self, old, new, page="docs/design/heap.md"):
        """The page, after the first `old` was replaced by `new` and scripts.figures wrote it again."""
        text = (ROOT / page).read_text(encoding="utf-8")
        self.assertIn(old, text)
        return pages.rewritten(page, text.replace(old, new, 1), pages.SHOWN[page], self.DATA)

    def test_pages_show_the_results(self):
        status, output = check()
        self.assertEqual(status, 0, output)

    def test_a_page_that_was_changed_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(ROOT / "README.md", folder)
            for name in pages.SHOWN:
                (Path(folder) / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, Path(folder) / name)
            path = Path(folder) / "docs/design/coalescing.md"
            text = path.read_text(encoding="utf-8")
            path.write_text(text.replace("header-warp 2", "header-warp 1", 1), encoding="utf-8")
            status, output = check(folder)
        self.assertEqual(status, 1)
        self.assertIn("coalescing.md does not show", output)

    def test_a_figure_typed_into_a_table_or_a_sentence_is_written_again(self):
        text = (DESIGN / "heap.md").read_text(encoding="utf-8")
        self.assertEqual(self.rewritten("{unit} -->4", "{unit} -->3"), text)
        row = re.search(r"after a reset, 16 B \| ", text)[0]
        self.assertEqual(self.rewritten(row, row + "1"), text)

    def test_a_page_without_its_part_or_with_a_value_of_no_record_is_refused(self):
        with self.assertRaisesRegex(SystemExit, r"has the parts \[\]; it must have \['goals'\]"):
            self.rewritten("<!-- figures:goals:begin -->", "")
        with self.assertRaisesRegex(SystemExit, "shows the value 'heap/luck "):
            self.rewritten("value:heap/registers/malloc", "value:heap/luck")

    def test_a_design_page_has_one_table_at_most_and_links_to_its_others(self):
        page = (ROOT / "docs/plots/README.md").read_text(encoding="utf-8")
        headings = re.findall(r"^### (.*)$", page, re.M)
        for name, parts in pages.SHOWN.items():
            if not name.startswith("docs/plots"):
                self.assertLessEqual(len([*parts.values()]), 1, name)
        for name, title in pages.APART:
            text = (DESIGN / name).read_text(encoding="utf-8")
            self.assertIn(title, headings)
            anchor = re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")
            self.assertIn(f"(../plots/README.md#{anchor})", text)

    def test_each_line_of_a_specification_shows_a_point(self):
        # Records of peers have no date, and do not make a table.
        data = Records([r | {"date": r["date"] or "2000-01-01"} for r in self.DATA.records])
        empty = []
        for place, fields in TABLES:
            parts = ((part, line) for part in ("rows", "columns") for line in lines(fields[part]))
            for part, line in parts:
                table = Table(**fields | {part: " > ".join(line)})
                empty += [f"{place}: {line}"] if table(data) == ["Not measured yet."] else []
        self.assertEqual(empty, [])

    def test_each_plot_is_on_a_page_and_each_page_has_its_plots(self):
        folder = ROOT / "docs/plots"
        shown = {
            name
            for page in ("README.md", "coalescing.md")
            for name in PLOT.findall((folder / page).read_text(encoding="utf-8"))
        }
        self.assertEqual(shown, {path.name for path in folder.glob("*.*g")})


class TypedMeasurements(unittest.TestCase):
    def test_only_the_log_has_typed_measurements(self):
        problems = []
        for name in pages.SHOWN:
            path = ROOT / name
            if path.name == "README.md" or "plots" in name:
                continue
            constants = CONSTANTS.get(path.name, {})
            found, unused = typed_measurements(path.read_text(encoding="utf-8"), constants)
            problems += [f"{path.name}: {text}: is not from bench/results" for text in found]
            problems += [f"{path.name}: '{words}' is in CONSTANTS, not in the page" for words in unused]
        self.assertEqual(problems, [], "\n" + "\n".join(problems))

    def test_the_log_would_be_refused_as_a_design_page(self):
        found, _ = typed_measurements((ROOT / pages.LOG).read_text(encoding="utf-8"))
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


def record(bench, value, machine="m", date="2026-01-02", commit="c", unit="ns", **params):
    top = {"machine": machine, "date": date, "commit": commit, "unit": unit}
    return {"bench": bench, "value": value, "params": params} | top


class Engine(unittest.TestCase):
    """What a specification of a table makes of records."""

    def table(self, *records, **more):
        """A table of these (machine, allocator, bytes, value): rows are sizes."""
        table = Table(
            "{bytes} > b bytes=8|16",
            "a >\n÷ > allocator=other ÷ allocator=quarry",
            head="{machine}, {origin}",
            **more,
        )
        names = ("machine", "allocator", "bytes", "value", "date")
        found = (dict(zip(names, each)) for each in records)
        return table(Records([record("b", commit=f"c{f['value']}", **f) for f in found]))

    def test_a_selection_is_a_text(self):
        wanted = {"bench": "a/b", "case": "no recording", "bytes": "8"}
        self.assertEqual(select('a/b case="no recording"', "bytes=8"), wanted)

    def test_a_selection_without_an_allocator_is_of_quarry_or_of_none(self):
        data = Records([record("b", 1), record("b", 2, allocator="other"), record("b", 3, x=None)])
        self.assertEqual([found["value"] for found in data.matching("b")], [1, 3])
        self.assertEqual([found["value"] for found in data.matching("b allocator=o*")], [2])
        self.assertEqual([found["value"] for found in data.matching("b x=None allocator=*")], [1, 2, 3])

    def test_a_table_shows_the_first_machine_and_the_origin_of_its_points_alone(self):
        lines = self.table(
            ("x86", "quarry", 8, 1),
            ("nvidia", "quarry", 8, 2),
            ("nvidia", "other", 8, 3),
            ("nvidia", "other", 16, 4),
        )
        head = "| nvidia, 2026-01-02, commits c2, c3 | a | ÷ |"
        self.assertEqual(lines, [head, "|---|---:|---:|", "| 8 B | 2 | 1.5 |"])

    def test_a_later_record_replaces_an_earlier_one_and_a_failure_has_no_quotient(self):
        old, new = ("m", "quarry", 8, 5, "2026-01-01"), ("m", "quarry", 8, 6, "2026-01-03")
        self.assertEqual(self.table(new, old)[2:], ["| 8 B | 6 |"])
        failed = self.table(old, ("m", "other", 8, 1), ("m", "quarry", 8, None))
        self.assertEqual(failed[2:], ["| 8 B | failed |"])

    def test_each_machine_can_have_a_table_and_rows_and_columns_without_points_are_left_out(self):
        records = [("m", "quarry", 8, 1), ("n", "quarry", 16, 2)]
        lines = self.table(*records, machines="each")
        self.assertEqual([line[:6] for line in lines[2::2]], ["| 8 B ", "| n, 2", "| 16 B"])
        self.assertEqual(lines[0], "| m, 2026-01-02, commit c1 | a |")
        self.assertEqual(self.table(), ["Not measured yet."])

    def test_rows_can_be_the_values_in_the_records_in_the_order_of_titles(self):
        kinds = {"small": "little", "large": "much"}
        NAMES["kinds"] = kinds
        self.addCleanup(NAMES.pop, "kinds")
        table = Table("{kind} | {n} > b kind=?kinds n=?", "a >", head=" | n", best="max")
        rows = (("large", 1), ("small", 2000), ("small", 3))
        lines = table(Records([record("b", n, kind=kind, n=n) for kind, n in rows]))
        self.assertEqual(
            lines[2:5], ["| little | 3 | 3 |", "| little | 2,000 | **2,000** |", "| much | 1 | 1 |"]
        )
        self.assertEqual(lines[5:], ["", "m, 2026-01-02, commit c."])  # no text names the origin

    def test_of_some_benchmarks_a_point_is_the_median_of_the_last_days_runs(self):
        runs = [record("host/pool/pair", n, date=f"2026-01-0{day}") for day, n in ((1, 9), (2, 4), (2, 2), (2, 3))]
        point = Records(runs).point("host/pool/pair")
        self.assertEqual(point.values, {"median": 3, "p10": 2, "p90": 4})


def shown(page, part, records):
    """The lines that a part of a page has with these records."""
    return pages.written(pages.SHOWN[page][part], Records(records))


class TablesOfRecords(unittest.TestCase):
    """Tables with cells of their own."""

    def training(self, measure, value, date="2026-01-02", commit="c", **params):
        params = {"allocator": "quarry", "measure": measure, "runs": 3} | params
        return record("python/plugins/training_gpt", value, "nvidia-x", date, commit, "", **params)

    def test_a_row_is_of_the_last_commit_of_the_last_day(self):
        records = [
            self.training("step_ms", 9, date="2026-01-01", commit="old"),
            self.training("step_ms", 8),
            self.training("step_ms", 20.04, commit="d"),
            self.training("step_ms spread", 1.234, commit="d"),
            self.training("peak_reserved", 3 << 30, commit="d"),
            self.training("step_ms", 25, commit="d", allocator="pool"),
        ]
        lines = shown("docs/guide/pytorch.md", "training", records)
        self.assertTrue(lines[0].startswith("nvidia-x, 2026-01-02, commit d."), lines[0])
        self.assertEqual(lines[4:], ["| `use()` | 3 | 20; 1.23 | 3 |", "| `pool()` | 3 | 25 | – |"])

    def mpi(self, system, value, host="g", bench="mpi/ring/hop", **params):
        params = {"system": system, "host": host, "ranks": 2} | params
        made = record(bench, value, f"{system} on {host}", unit="us", **params)
        return made | ({"spread": {"p10": value - 1, "p90": value + 1}} if value else {"unit": ""})

    def test_a_row_has_both_systems_and_says_whether_the_goal_is_met(self):
        failure = {"bench": "mpi/failed", "program": "ring", "error": "exit status 124"}
        records = [
            self.mpi("quarry-gpu", 9),
            self.mpi("quarry-gpu", 4.0),
            self.mpi("open-mpi", 3),
            self.mpi("quarry-gpu", 1, ranks=3),
            self.mpi("quarry-gpu", None, ranks=5, **failure),
            self.mpi("quarry-cpu", 8, host="without a GPU"),
            self.mpi("quarry-gpu", 20.0, "g", "mpi/ping_pong/bandwidth", bytes=1 << 20, buffer="heap"),
        ]
        self.assertEqual(
            [line.split(" | ")[1:] for line in shown("docs/design/mpi.md", "costs", records)[4:]],
            [
                ["2", "µs", "20 (19–21)", "–", "≥ 30: **missed** |"],
                ["2", "µs", "4 (3–5)", "3 (2–4)", "≤ 1.2: **missed** |"],
                ["3", "µs", "1 (0–2)", "–", "≤ 1.2: met |"],
                ["5", "", "no end in time", "–", "≤ 1.2: **missed** |"],
            ],
        )

    def test_a_program_has_a_row_for_its_last_commit(self):
        def tried(device, equal, commit="b", reason="", ranks=[4]):
            params = {"repository": "o/r", "program": "p", "commit": commit, "device": device}
            params |= {"ranks": ranks, "compiles": True, "equal": equal, "reason": reason}
            return {**record("mpi/others", 1), "params": params}

        records = [
            tried("gpu", True, commit="a"),
            tried("cpu", False, reason="x"),
            tried("cpu", True, ranks=[4, 1000]),
            tried("gpu", False, reason="no stack"),
        ]
        lines = shown("docs/design/mpi_programs.md", "others", records)
        self.assertEqual(lines[-1], "| p | o/r b | yes | yes [4, 1000] | **no** [4] | no stack |")

    def test_a_goal_is_a_least_or_a_greatest_value(self):
        data = Records([record("b", 2000)])
        goals = {"≤ 2,000": "met", "≥ 2000": "met", "≤ 1,999.5": "**missed**", "≥ 2,001": "**missed**"}
        for goal, verdict in goals.items():
            table = Table(f'row > b .goal="{goal}"', "a >\ngoal > = goal")
            self.assertEqual(table(data)[2], f"| row | 2,000 | {goal}: {verdict} |")


class Verdicts(unittest.TestCase):
    """A claim's verdict follows from the figures beside the claim."""

    def verdict(self, header, map_):
        times = {"cuda": 6.0, "cuda+header-warp": header, "cuda+map-warp": map_}
        records = [
            record("coalesced/unit/work", 1, allocator=name, workload="linear", mode="none", grid="paper", floats=400)
            | {"spread": {"mean": mean}}
            for name, mean in times.items()
            if mean
        ]
        line = shown("docs/design/coalescing.md", "claims", records)[6]
        return line.split(" | ")[3]

    def test_a_verdict_is_whether_all_figures_meet_the_condition(self):
        self.assertEqual(self.verdict(1.5, 2.0), "yes: header-warp 4, map-warp 3")
        self.assertEqual(self.verdict(1.5, 2.4), "no: header-warp 4, map-warp 2.5")
        self.assertEqual(self.verdict(1.5, None), "not measured")


class PosterClaims(unittest.TestCase):
    """The verdicts on the poster's claims follow from the outcomes of a trace."""

    PUBLISHED = heuristics.outcomes_of(View(read(), None), "poster")

    def changed(self, **settings):
        """The poster's own outcomes, except for these: `blocks_2_cbg=(coalesces, overhead)`."""
        outcomes = dict(self.PUBLISHED)
        for name, figures in settings.items():
            kind, number, *variant = name.split("_")
            outcomes["+".join([f"{kind}:{number}", *variant])] = Outcome(*figures)
        return outcomes

    def test_the_poster_has_sixteen_outcomes_of_nineteen_settings(self):
        self.assertEqual(len(heuristics.SETTINGS), 19)
        self.assertEqual(len(self.PUBLISHED), 16)
        self.assertLess(set(self.PUBLISHED), set(heuristics.SETTINGS))

    def test_the_front_has_no_outcome_that_another_one_beats(self):
        outcomes = [Outcome(3, 9), Outcome(1, 20), Outcome(3, 8), Outcome(4, 8), Outcome(9, 2)]
        self.assertEqual(heuristics.front_of(outcomes), [Outcome(1, 20), Outcome(3, 8), Outcome(9, 2)])

    def test_claims_hold_for_the_poster_itself(self):
        claims = Claims(self.PUBLISHED)
        for judge in (claims.calls_fall, claims.memory_grows, claims.cbg_calls_least, claims.percent_reserves_most):
            self.assertTrue(judge().startswith("yes"), judge)
        self.assertEqual(claims.steps_that_grow(), "8 of 12")

    def test_one_other_outcome_changes_the_verdict(self):
        more_calls = Claims(self.changed(blocks_12=(45, 17), blocks_7_cbg=(13, 13)))
        self.assertEqual(more_calls.calls_fall(), "in part: 44 → 45, 47 → 9, 10 → 4")
        self.assertEqual(more_calls.cbg_calls_least(), "in part: 4 of 5")
        self.assertTrue(Claims(self.changed(blocks_12_cbg=(4, 9))).memory_grows().startswith("in part"))
        self.assertTrue(Claims(self.changed(blocks_5=(18, 73))).percent_reserves_most().startswith("no"))

    def test_a_percentage_must_coalesce_and_be_unbeaten_to_be_on_the_front(self):
        ended = {"percent_50": (3, 4), "percent_75": (0, 50), "percent_90": (90, 90)}
        self.assertEqual(Claims(self.changed(**ended)).percent_on_front(), "yes: Percent(50)")
        beaten = self.changed(**ended, blocks_2=(2, 4))
        self.assertEqual(Claims(beaten).percent_on_front(), "no")

    def test_percentages_have_places_by_cost(self):
        costs = {"percent_50": 3, "percent_75": 1, "percent_90": 2}
        outcomes = self.changed(**{name: (1, 1, cost) for name, cost in costs.items()})
        only = {name: each for name, each in outcomes.items() if each.cost_ms}
        self.assertEqual(Claims(only).percent_places(), "3, 1, 2")


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
