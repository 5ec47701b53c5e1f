# SPDX-License-Identifier: Apache-2.0
"""Traces that come through the standard input and through pipes."""

import json
import os
import resource
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from typer.testing import CliRunner

from quarry.cli import app
from quarry.command_line.inputs import trace_input
from quarry.errors import BadArgument

COMMAND = str(Path(sys.executable).with_name("quarry"))
LOG = "".join(f"a {i} 4096\nf {i}\n" for i in range(50)) + "a nothing\n"


def arguments_of(command, trace, tmp_path):
    return {
        "tune": [trace, "--candidates", "published"],
        "plan": [trace, "--max-steps", "1000"],
        "report": [trace, "-o", str(tmp_path / "out.html")],
        "convert": [trace, str(tmp_path / "out.quarry")],
        "bench": [trace, "--only", "replay", "--seconds", "0.1"],
    }.get(command, [trace])


@pytest.mark.parametrize(
    "command", ["bench", "convert", "plan", "replay", "report", "separate", "tune"]
)
def test_a_snapshot_may_come_through_the_standard_input(command, recording, tmp_path):
    """PyTorch's snapshots are compressed, and each command reads them several times."""
    words = arguments_of(command, "-", tmp_path)
    data = recording.read_bytes()
    result = CliRunner().invoke(app, [command, *words, "--json"], input=data)
    assert result.exit_code == 0, result.output
    if command == "bench":
        return
    values = json.loads(result.stdout)
    words = arguments_of(command, str(recording), tmp_path)
    expected = json.loads(CliRunner().invoke(app, [command, *words, "--json"]).stdout)
    assert values.pop("trace") == "-" and expected.pop("trace") == str(recording)
    for each in (values, expected):
        each.pop("command", None)
    assert values == expected
    assert not list(Path(tmp_path).glob("quarry-*"))


def test_a_named_pipe_is_a_trace(recording, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(recording.read_bytes()))
    writer.start()
    result = CliRunner().invoke(app, ["tune", str(pipe), "--candidates", "published"])
    writer.join()
    assert result.exit_code == 0 and f"{pipe}: 9,818 events" in result.stdout
    assert f"quarry replay {pipe} " in result.stdout


def test_the_shell_can_pipe_a_trace(recording):
    script = 'cat "$1" | "$0" replay /dev/stdin --json'
    words = ["sh", "-c", script, COMMAND, str(recording)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and json.loads(done.stdout)["events"] == 9818, done.stderr


def test_problems_and_errors_name_the_standard_input():
    result = CliRunner().invoke(app, ["replay", "-"], input=LOG)
    assert result.exit_code == 2 and "skipped: standard input:101: " in result.stderr
    values = json.loads(CliRunner().invoke(app, ["replay", "-", "--json"], input=LOG).stdout)
    assert values["problems"][0].startswith("standard input:101: ")
    result = CliRunner().invoke(app, ["replay", "-"], input="no trace")
    assert result.stderr.startswith("error: standard input: the format is unknown")
    result = CliRunner().invoke(app, ["replay", "-"], input="")
    assert result.exit_code == 2 and result.stderr == "error: standard input: the file is empty\n"


@pytest.mark.parametrize("size", [1000, None])  # less than a buffer, and all of the recording
def test_a_full_disk_is_named(size, recording, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, hard))  # as on a full disk
    try:
        result = CliRunner().invoke(app, ["replay", "-"], input=recording.read_bytes()[:size])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert result.exit_code == 2
    assert f"temporary file in {tmp_path}: File too large; set TMPDIR" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_terminal_and_a_closed_input_are_refused(monkeypatch):
    outer, inner = os.openpty()
    words = [COMMAND, "replay", "-"]
    done = subprocess.run(words, stdin=inner, capture_output=True, text=True, check=False)
    os.close(inner)
    os.close(outer)
    assert done.returncode == 2 and "the standard input is a terminal" in done.stderr
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(BadArgument, match="closed"), trace_input("-"):
        pass
