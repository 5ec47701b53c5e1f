# SPDX-License-Identifier: Apache-2.0
"""Runs the commands and the code of docs/guide/python.md, and the commands of tuning_a_pool.md."""

import re
import shlex
import shutil
from pathlib import Path

import pytest
from conftest import DATA
from typer.testing import CliRunner

from quarry.cli import app

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "python.md"
TUNING = GUIDE.with_name("tuning_a_pool.md")
BLOCK = re.compile(r"^```(sh|python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    if not GUIDE.exists() or not (DATA / "gnn.pickle.gz").exists():
        pytest.skip("the guide or the recordings are not there")
    shutil.copy(DATA / "gnn.pickle.gz", tmp_path / "gpt.pickle.gz")  # the smallest recording
    (tmp_path / "data").symlink_to(DATA)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def blocks(language, guide=GUIDE):
    text = guide.read_text("utf-8") if guide.exists() else ""
    return [block for name, block in BLOCK.findall(text) if name == language]


def test_the_commands_of_the_guide_run(folder):
    commands = [line for block in blocks("sh") for line in block.splitlines()]
    ours = [shlex.split(line)[1:] for line in commands if line.startswith("quarry ")]
    assert len(ours) >= 7
    for words in ours:
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, (words, result.output)


def test_the_code_of_the_guide_runs(folder, capsys):
    code = blocks("python")
    assert len(code) >= 7
    variables = {}
    for block in code:
        exec(compile(block, str(GUIDE), "exec"), variables)
    printed = capsys.readouterr().out
    assert "True False" in printed and "pool: no memory for 2147483648 bytes" in printed


def test_the_guide_to_tuning_shows_what_the_commands_print(folder):
    pytest.importorskip("matplotlib")
    outputs = []
    for block in blocks("sh", TUNING):
        result = CliRunner().invoke(app, shlex.split(block)[1:])
        assert result.exit_code == 0, (block, result.output)
        outputs.append(result.stdout)
    assert len(outputs) == 2
    (shown,) = blocks("text", TUNING)
    assert outputs[0].startswith(shown + "\n")
    assert (folder / "gnn.png").exists()
