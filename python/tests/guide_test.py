# SPDX-License-Identifier: Apache-2.0
"""Runs the commands and the code of docs/guide/python.md, in their order."""

import re
import shlex
import shutil
from pathlib import Path

import pytest
from conftest import DATA
from typer.testing import CliRunner

from quarry.cli import app

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "python.md"
BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    if not GUIDE.exists() or not (DATA / "gnn.pickle.gz").exists():
        pytest.skip("the guide or the recordings are not there")
    shutil.copy(DATA / "gnn.pickle.gz", tmp_path / "gpt.pickle.gz")  # the smallest recording
    monkeypatch.chdir(tmp_path)


def blocks(language):
    text = GUIDE.read_text("utf-8") if GUIDE.exists() else ""
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
