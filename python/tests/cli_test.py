# SPDX-License-Identifier: Apache-2.0
import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import quarry
from quarry.cli import app

COMMAND = Path(sys.executable).with_name("quarry")


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def test_replay_prints_what_the_pool_would_have_held(trace_file):
    result = run("replay", trace_file)
    assert result.exit_code == 0
    assert "peak reserved" in result.stdout and "fits" in result.stdout


def test_replay_prints_one_json_object(trace_file):
    result = run("replay", trace_file, "--strategy", "stitched", "--json")
    values = json.loads(result.stdout)
    assert result.exit_code == 0
    assert values["settings"]["strategy"] == "stitched" and values["fits"] is True


def test_replay_ends_with_1_if_the_trace_does_not_fit(trace_file):
    result = run("replay", trace_file, "--capacity", "1MiB")
    assert result.exit_code == 1
    assert "does not fit: event " in result.stderr
    assert "largest free chunk" in result.stderr
    result = run("replay", trace_file, "--capacity", "1MiB", "--json")
    values = json.loads(result.stdout)
    assert result.exit_code == 1 and values["fits"] is False
    assert values["first_failure"]["pool"]["reserved"] <= 1 << 20


@pytest.mark.parametrize("command", ["replay", "report", "convert"])
def test_bad_input_ends_with_2_and_names_the_file(command, tmp_path):
    path = tmp_path / "broken.csv"
    path.write_text("no trace\n")
    more = {"report": ["-o", tmp_path / "out"], "convert": [tmp_path / "out"]}.get(command, [])
    for missing in (path, tmp_path / "missing"):
        result = run(command, missing, *more)
        assert result.exit_code == 2
        assert missing.name in result.stderr.replace("\n", "")
        result = run(command, missing, *more, "--json")
        assert result.exit_code == 2
        assert missing.name in json.loads(result.stdout)["error"]
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "options",
    [["--strategy", "psychic"], ["--heuristic", "percent"], ["--capacity", "lots"], ["--bogus"]],
)
def test_bad_options_end_with_2(trace_file, options):
    assert run("replay", trace_file, *options).exit_code == 2


def test_convert_writes_our_own_format(recording, tmp_path):
    output = tmp_path / "converted"
    values = json.loads(run("convert", recording, output, "--json").stdout)
    assert values["bytes"] == output.stat().st_size
    assert len(quarry.read_trace(output)) == values["events"]
    assert run("convert", output, output).exit_code == 2


def test_info_lists_what_the_build_can_do():
    values = json.loads(run("info", "--json").stdout)
    assert values["version"] == quarry.__version__
    assert "pytorch" in values["trace_formats"]
    assert quarry.__version__ in run("info").stdout


@pytest.mark.parametrize("command", ["info", "record", "replay", "tune", "separate", "plan", "report", "convert"])
def test_help_has_an_example(command):
    result = run(command, "--help")
    assert result.exit_code == 0
    assert f"Example: quarry {command}" in result.stdout


def test_the_installed_command_uses_no_colours_without_a_terminal(trace_file):
    done = subprocess.run(
        [COMMAND, "replay", trace_file, "-c", "1MiB"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "\x1b" not in done.stdout + done.stderr
    assert done.stderr.startswith("does not fit: ")


def test_the_shell_completes_commands():
    environment = {
        "_QUARRY_COMPLETE": "complete_bash",
        "COMP_WORDS": "quarry re",
        "COMP_CWORD": "1",
    }
    done = subprocess.run([COMMAND], capture_output=True, text=True, env=environment, check=False)
    assert set(done.stdout.split()) == {"record", "replay", "report"}
