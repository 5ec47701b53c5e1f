# SPDX-License-Identifier: Apache-2.0
"""Runs the commands and the code of guides, in their order, and checks the output they show."""

import re
import shlex
import shutil
from pathlib import Path

import pytest
from conftest import DATA
from typer.testing import CliRunner

from quarry.cli import app

GUIDES = Path(__file__).resolve().parents[2] / "docs" / "guide"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

#: The pages, the file that a page's `csv` or `json` block is, and texts that its code prints.
PAGES = {
    "python.md": (None, ["True False", "pool: no memory for 2147483648 bytes"]),
    "rmm_log.md": ("log.dev0.csv", ["['', '4142'] ['', '0x1']", "33554432 68157440"]),
    "umpire_log.md": ("umpire.4142.0.stats", ["'density'", "['step 1', 'step 2']"]),
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    if not GUIDES.exists() or not (DATA / "gnn.pickle.gz").exists():
        pytest.skip("the guides or the recordings are not there")
    shutil.copy(DATA / "gnn.pickle.gz", tmp_path / "gpt.pickle.gz")  # the smallest recording
    (tmp_path / "data").symlink_to(DATA)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def commands_of(block):
    """The words of each command for `quarry`, and whether it must succeed."""
    for line in block.splitlines():
        if line.startswith("quarry "):
            yield shlex.split(line, comments=True)[1:], "# exits with 1" not in line


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_and_the_code_of_a_guide_run(page, folder, capsys):
    sample, texts = PAGES[page]
    printed, variables, blocks = "", {}, BLOCK.findall((GUIDES / page).read_text("utf-8"))
    for language, block in blocks:
        if language in ("csv", "json"):
            (folder / sample).write_text(block)
        elif language == "sh":
            printed = ""
            for words, succeeds in commands_of(block):
                result = CliRunner().invoke(app, words)
                printed += result.output
                assert result.exit_code == (0 if succeeds else 1), (words, result.output)
        elif language == "output":
            for line in block.splitlines():
                assert line in printed.splitlines(), (line, printed)
        elif language == "python":
            exec(compile(block, page, "exec"), variables)
    languages = [language for language, _ in blocks]
    assert languages.count("sh") >= 5 and "python" in languages
    code_printed = capsys.readouterr().out
    for text in texts:
        assert text in code_printed


def test_the_guide_to_tuning_shows_what_the_commands_print(folder):
    pytest.importorskip("matplotlib")
    blocks = BLOCK.findall((GUIDES / "tuning_a_pool.md").read_text("utf-8"))
    outputs = []
    for language, block in blocks:
        if language == "sh":
            result = CliRunner().invoke(app, shlex.split(block)[1:])
            assert result.exit_code == 0, (block, result.output)
            outputs.append(result.stdout)
    assert len(outputs) == 2
    (shown,) = [block for language, block in blocks if language == "text"]
    assert outputs[0].startswith(shown + "\n")
    assert (folder / "gnn.png").exists()
