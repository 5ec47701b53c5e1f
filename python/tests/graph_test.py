# SPDX-License-Identifier: Apache-2.0
import gzip
import json

import pytest
from conftest import DATA
from typer.testing import CliRunner

from quarry import _core
from quarry.cli import app

pytestmark = pytest.mark.skipif(not _core.has_graph, reason="the build has no zlib")


def graph(*words):
    return CliRunner().invoke(app, ["graph", *(str(word) for word in words)])


def test_every_step_runs_on_both_allocators():
    values = json.loads(graph("--scale", "6", "--backend", "cpu", "--json").stdout)
    assert values["backend"] == "cpu" and values["wrong_answer"] is None
    assert values["edges"] == 8 << 6
    steps = {(step["allocator"], step["step"]) for step in values["steps"]}
    assert {name for name, _ in steps} == {"quarry", "libc"} and len(steps) == 12
    last = [step for step in values["steps"] if step["allocator"] == "quarry"][-1]
    assert last["step"] == "delete all" and last["heap"]["allocated"] == 0


def test_a_table_shows_the_steps():
    result = graph("--scale", "4")
    assert result.exit_code == 0
    assert "quarry: step" in result.stdout and "libc: step" in result.stdout
    assert "agrees with the reference" in result.stdout


def test_a_seed_gives_the_same_graph_again():
    def sizes(seed):
        values = json.loads(graph("--scale", "6", "--seed", seed, "--json").stdout)
        return values["distinct_edges"], values["sources"]

    assert sizes(1) == sizes(1) != sizes(2)


def test_it_reads_the_graph_of_a_file(tmp_path):
    path = tmp_path / "graph.el.gz"
    path.write_bytes(gzip.compress(b"# a comment\n1 2\n1 2\n2 3\n"))
    values = json.loads(graph(path, "--json").stdout)
    assert (values["edges"], values["distinct_edges"], values["sources"]) == (3, 2, 2)


def test_it_reads_the_graph_of_the_repository():
    path = DATA / "debian-12-depends.el.gz"
    if not path.exists():
        pytest.skip("data/debian-12-depends.el.gz is not there")
    result = graph(path, "--backend", "automatic")
    assert result.exit_code == 0 and "283,161" in result.stdout


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"1 2\n3 x\n", ':2: target "x" is not an integer'),
        (b"", ": the graph has no edges"),
        (gzip.compress(b"1 2\n" * 99)[:-9], ":100: the gzip data ends too soon"),
        (None, ": cannot read: No such file"),
    ],
)
def test_bad_input_ends_with_2_and_names_file_and_line(content, message, tmp_path):
    path = tmp_path / "graph.el"
    if content is not None:
        path.write_bytes(content)
    result = graph(path)
    assert result.exit_code == 2 and f"error: {path}{message}" in result.stderr
    assert f"{path}{message}" in json.loads(graph(path, "--json").stdout)["error"]


@pytest.mark.parametrize(
    "words",
    [
        ["--scale", "0"],
        ["--scale", "26", "--edges-per-vertex", "99"],
        ["--edges-per-vertex", 10**30],
        ["--backend", "abacus"],
    ],
)
def test_bad_options_end_with_2(words):
    assert graph(*words).exit_code == 2


@pytest.mark.parametrize(("option", "value"), [("--scale", 14), ("--edges-per-vertex", 8)])
def test_an_option_of_random_graphs_is_refused_for_a_file(option, value):
    result = graph("graph.el", option, value)
    assert result.exit_code == 2
    assert f"{option} is for a random graph; leave out FILE or {option}" in result.stderr


@pytest.mark.skipif(bool(_core.cuda_devices()), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_refused():
    result = graph("--scale", "4", "--backend", "cuda")
    assert result.exit_code == 2 and "needs a GPU" in result.stderr


def test_a_wrong_answer_ends_with_1(monkeypatch):
    wrong = {"edges": 1, "distinct_edges": 1, "sources": 1, "backend": "cpu", "steps": []}
    monkeypatch.setattr(_core, "graph", lambda *_, **__: wrong | {"wrong_answer": "1 -> 2"})
    result = graph()
    assert result.exit_code == 1 and "wrong answer: 1 -> 2" in result.stderr
    assert graph("--json").exit_code == 1
