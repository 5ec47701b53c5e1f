# SPDX-License-Identifier: Apache-2.0
import contextlib
import gzip
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import random_trace
from typer.testing import CliRunner

import quarry
from quarry.cli import app
from quarry.measurements import REPLAYED

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


@pytest.mark.parametrize("strategy", ["fast", "streams", "stitched"])
def test_replay_uses_real_memory(strategy, trace_file):
    options = ["--resource", "host", "--strategy", strategy]
    result = run("replay", trace_file, *options, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["measured_us"] > 0 and found["settings"]["resource"] == "host"
    assert "measured time of the upstream" in run("replay", trace_file, *options).output


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
    assert run("--version").stdout == f"quarry {quarry.__version__}\n"


def test_advice_to_install_names_packages_that_an_index_has(monkeypatch):
    """The distribution is on no index yet, so its extras cannot be installed by name."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "pip install matplotlib" in run("info").stdout
    sources = list(Path(quarry.__file__).parent.rglob("*.py"))
    assert len(sources) > 30
    assert not [source for source in sources if "quarry-gpu[" in source.read_text("utf-8")]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["replay", "."], r"error: \.: cannot read the file: Is a directory"),
        (["replay", os.devnull], "error: /dev/null: the file is empty"),
        (["replay", "TRACE", "--capacity", "99999999999999999999GiB"], "is not a size"),
        (["replay", "TRACE", "--capacity", "-5"], "error: '-5' is not a size"),
        (["replay", "TRACE", "--strategy", "planned"], "needs a plan"),
        (["replay", "TRACE", "--resource", "paper"], "'paper'"),
        (["replay", "TRACE", "--us-per-free", "inf"], "inf is not from 0 to 1e"),
        (["replay", "TRACE", "--us-per-free", "nan"], "nan is not from 0 to 1e"),
        (["tune", "TRACE", "--threads", "-1"], "--threads"),
        (["replay", "b\udcffd"], r"error: b\\xffd: cannot open the file"),
        (["replay", ""], "the name of the file is empty"),
        (["convert", "TRACE", "-"], "'-' names no file here"),
        (["replay", "TRACE", "--allocator", "a"], "it names no allocators. Select none"),
        (["tune", "TRACE", "--us-per-gib", "1e13"], "is not from 0 to 1e"),
        (["plan", "TRACE", "--alignment", "3"], "alignment is 3, not a power of two"),
        (["plan", "TRACE", "-o", "."], r"error: \.: cannot write: it is a folder"),
        (["separate", "TRACE", "-o", "no/x"], "error: no/x: cannot write: there is no folder no"),
        (["report", "TRACE", "-o", "out.html", "--png", "out.jpeg"], "a picture ends in"),
        (["report", "TRACE", "-o", "out.html", "-s", "planned"], "which a report does not take"),
        (
            ["separate", "TRACE", "-s", "stitched"],
            "stitched has no pools to separate; choose one of fast_fit",
        ),
        (["convert", "TRACE", "/dev/full"], "error: /dev/full: "),
        (["record", "--", "no-such-program"], "error: no-such-program: No such file"),
    ],
)
def test_a_message_says_what_is_wrong_with_an_argument(
    words, message, trace_file, tmp_path, monkeypatch
):
    if message.startswith("a picture"):
        pytest.importorskip("matplotlib")
    words = [str(trace_file) if word == "TRACE" else word for word in words]
    monkeypatch.chdir(tmp_path)
    result = run(*words)
    assert result.exit_code == 2 and isinstance(result.exception, SystemExit)
    assert re.search(message, result.stderr)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["bench", "TRACE", "--only", "pools"], "'pools' does not use a TRACE; leave out TRACE"),
        (["replay", "TRACE", "--device", "0"], "--device 0 has no effect without the memory"),
        (["replay", "TRACE", "--samples"], "--samples adds the curves to the JSON object; add"),
        (["replay", "TRACE", "-s", "direct", "-H", "cost:1"], "no effect with the strategy direct"),
        (["replay", "TRACE", "-s", "streams", "-H", "cost:1"], "--heuristic cost:1 has no effect"),
        (["replay", "TRACE", "-s", "stitched", "--first-block", "1"], "--first-block 1 has no eff"),
        (["replay", "TRACE", "-s", "direct", "--next-block", "1"], "--next-block 1 has no effect"),
        (["report", "TRACE", "-o", "x", "--us-per-gib", "100000"], "is the price for --tune; add"),
        (
            ["report", "TRACE", "-o", "x", "-H", "cost:1", "-s", "direct", "-s", "streams"],
            "--heuristic cost:1 has no effect with the strategy direct and streams: leave it out",
        ),
    ],
)
def test_an_option_without_effect_is_refused(words, message, trace_file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run(*(trace_file if word == "TRACE" else word for word in words))
    assert result.exit_code == 2 and message in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_option_that_one_of_the_strategies_uses_is_accepted(trace_file, tmp_path):
    words = ["report", trace_file, "-o", tmp_path / "x", "-H", "cost:1", "-s", "fast"]
    assert run(*words, "-s", "direct").exit_code == 0
    words = ["replay", trace_file, "-s", "streams", "--first-block", "1MiB"]
    assert run(*words).exit_code == 0


def test_a_bad_command_line_gives_json_too(trace_file):
    for words, message in (
        (["replay", trace_file, "--bogus"], "No such option: --bogus"),
        (["replay", trace_file, "--us-per-free", "inf"], "inf is not from 0 to 1e"),
        (["replay"], "Missing argument"),
        (["psychic"], "No such command"),
    ):
        result = run(*words, "--json")
        assert result.exit_code == 2 and result.stderr == ""
        assert message in json.loads(result.stdout)["error"]
        assert run(*words).stdout == ""


def test_a_failure_is_no_misfit_if_its_message_cannot_be_written():
    with open("/dev/full", "w") as full:
        done = subprocess.run([COMMAND, "replay", "nowhere"], stderr=full, check=False)
    assert done.returncode == 2


def test_control_characters_of_names_are_escaped(tmp_path):
    name = str(tmp_path / "two\nlines\x1b[2J")
    result = run("replay", name)
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1 and r"two\nlines\x1b[2J: cannot" in result.stderr
    assert name in json.loads(run("replay", name, "--json").stdout)["error"]


def test_a_trace_without_events_is_named(tmp_path):
    quarry.make_trace({"size": []}).write(tmp_path / "empty")
    for command in ("replay", "tune", "plan"):
        result = run(command, tmp_path / "empty")
        assert result.exit_code == 0 and result.stderr == "empty: the trace has no events\n"


def without_terminal(*words):
    """Runs the installed command."""
    command = [str(COMMAND), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def on_terminal(*words, until=None, **environment):
    """Runs the command with a terminal as standard error. Sends Control-C once `until` appears.

    Returns the exit status, the standard output, and what the terminal got.
    """
    outer, inner = os.openpty()
    variables = {"PATH": os.environ["PATH"], "TERM": "xterm", "COLUMNS": "120", **environment}
    shown = b""
    with subprocess.Popen(
        [str(COMMAND), *map(str, words)], env=variables, stdout=subprocess.PIPE, stderr=inner
    ) as process:
        os.close(inner)
        with contextlib.suppress(OSError):  # the terminal's end
            while some := os.read(outer, 4096):
                shown += some
                if until is not None and until in shown:
                    until = None
                    process.send_signal(signal.SIGINT)
        output = process.stdout.read()
    os.close(outer)
    return process.returncode, output.decode(), shown.decode()


COMMANDS = [command.name or command.callback.__name__ for command in app.registered_commands]


def test_help_names_all_commands():
    assert set(COMMANDS) == {
        "bench", "convert", "graph", "info", "plan",
        "record", "replay", "report", "separate", "tune",
    }  # fmt: skip
    text = run("--help").stdout
    assert all(re.search(rf"^│ {name} ", text, re.MULTILINE) for name in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_example_of_the_help_runs(command, recording, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("PATH", f"{COMMAND.parent}{os.pathsep}{os.environ['PATH']}")  # of `python`
    monkeypatch.chdir(tmp_path)
    shown = run(command, "--help")
    assert shown.exit_code == 0 and "--json" in shown.stdout and "xit status" in shown.stdout
    example = re.search(rf"Example: quarry ({command}.*?)\s*$", shown.stdout, re.MULTILINE)[1]
    shutil.copy(recording, "gpt.pickle.gz")
    Path("train.py").write_text("import quarry; quarry.Pool().allocate(100)\n")
    result = run(*shlex.split(example.replace("--seconds 5", "--seconds 0.1")))
    assert result.exit_code == 0, result.stderr
    for name in re.findall(r"(?:-o |gz )((?:gpt|train)\.\w+)", example):
        assert Path(name).stat().st_size > 0


def arguments_of(command, trace, tmp_path):
    """Arguments that make a command finish soon."""
    return {
        "info": [],
        "graph": ["--scale", "4"],
        "record": ["-o", tmp_path / "out", "--", "true"],
        "tune": [trace, "--candidates", "published"],
        "plan": [trace, "--max-steps", "1000"],
        "report": [trace, "-o", tmp_path / "out.html"],
        "convert": [trace, tmp_path / "out.quarry"],
        "bench": [trace, "--only", "replay", "--seconds", "0.1"],
    }.get(command, [trace])


@pytest.mark.parametrize("command", COMMANDS)
def test_json_is_one_object_and_has_no_escape_codes(command, trace_file, tmp_path):
    words = [command, *arguments_of(command, trace_file, tmp_path)]
    result = run(*words[:1], "--json", *words[1:])
    assert result.exit_code == 0 and "\x1b" not in result.stdout + result.stderr
    lines = result.stdout.splitlines()
    assert len(lines) == (len(REPLAYED) if command == "bench" else 1)  # a line a measurement
    assert all(isinstance(json.loads(line), dict) for line in lines)


TRACE_COMMANDS = ["bench", "convert", "plan", "replay", "report", "separate", "tune"]


@pytest.fixture(scope="module")
def damaged(tmp_path_factory):
    """Traces with damage, of which events are kept, by the kind of damage."""
    folder = tmp_path_factory.mktemp("damaged")
    lines = "".join(f"a {i} 4096\nf {i}\n" for i in range(50))
    log = folder / "line.log"
    log.write_text(lines + "a nothing\n" + lines)
    whole = folder / "whole.quarry"
    random_trace(3, 30_000).write(whole)
    data = whole.read_bytes()
    cut = folder / "cut.quarry"
    cut.write_bytes(data[: len(data) - 5000])
    packed = folder / "cut.log.gz"
    text = "".join(f"a {i} {i * 7919 % 4096}\nf {i}\n" for i in range(5000)).encode()
    packed.write_bytes(gzip.compress(text)[:-3000])
    return {"line": log, "cut": cut, "compressed": packed}


@pytest.mark.parametrize("command", TRACE_COMMANDS)
@pytest.mark.parametrize("kind", ["line", "cut", "compressed"])
def test_a_damaged_trace_gives_a_result_and_status_2(command, kind, damaged, tmp_path):
    words = [command, *arguments_of(command, damaged[kind], tmp_path)]
    result = run(*words)
    assert result.exit_code == 2
    assert result.stdout and f"skipped: {damaged[kind]}" in result.stderr
    assert run(*words, "--accept-damage").exit_code == 0
    if command in ("convert", "report"):
        assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("command", [name for name in TRACE_COMMANDS if name != "bench"])
def test_json_names_the_damage(command, damaged, tmp_path):
    words = [command, *arguments_of(command, damaged["line"], tmp_path), "--json"]
    result = run(*words)
    values = json.loads(result.stdout)
    assert result.exit_code == 2 and result.stderr == ""
    assert values["problem_count"] == 1 and f"{damaged['line']}:101: " in values["problems"][0]
    accepted = run(*words, "--accept-damage")
    assert accepted.exit_code == 0 and json.loads(accepted.stdout)["problem_count"] == 1


def test_a_damaged_trace_that_does_not_fit_ends_with_1_if_damage_is_accepted(damaged):
    words = ["replay", damaged["line"], "--capacity", "1KiB"]
    assert run(*words).exit_code == 2
    assert run(*words, "--accept-damage").exit_code == 1


def test_a_history_that_starts_late_and_a_ring_are_not_damaged(recording, tmp_path):
    assert run("replay", recording).exit_code == 0
    with quarry.Recorder(ring="4KiB") as recorder:
        pool = quarry.Pool(recorder=recorder)
        for size in range(1, 1000):
            pool.deallocate(pool.allocate(size))
        recorder.save(tmp_path / "ring")
    result = run("replay", tmp_path / "ring", "--json")
    values = json.loads(result.stdout)
    assert result.exit_code == 0 and values["problems"] == [] and values["events"] < 200


def test_progress_appears_on_a_terminal_only(trace_file):
    status, output, shown = on_terminal("replay", trace_file)
    assert status == 0 and "peak reserved" in output
    assert "replaying" in shown and "replaying" not in output
    assert without_terminal("replay", trace_file).stderr == ""


def test_json_goes_to_standard_output_while_progress_is_shown():
    words = ("bench", "--only", "recording", "--seconds", "0.1", "--json")
    status, output, shown = on_terminal(*words)
    assert status == 0 and len([json.loads(line) for line in output.splitlines()]) == 2
    assert "2 of 2" in shown and "{" not in shown


def test_letters_that_the_output_lacks_are_escaped(trace_file, tmp_path):
    path = shutil.copy(trace_file, tmp_path / "tracé")
    status, output, _ = on_terminal("replay", path, PYTHONIOENCODING="ascii")
    assert status == 0 and "trac\\xe9: " in output


def test_colours_can_be_switched_off(trace_file):
    colour = re.compile(r"\x1b\[[0-9;]*3[0-7]m")
    words = ("replay", trace_file, "-c", "1MiB")
    assert colour.search(on_terminal(*words)[2])
    assert not colour.search(on_terminal(*words, NO_COLOR="1")[2])
    done = without_terminal(*words)
    assert done.returncode == 1 and "\x1b" not in done.stdout + done.stderr
    assert done.stderr.startswith("does not fit: ")


def test_control_c_ends_with_130_and_no_traceback():
    status, output, shown = on_terminal(
        "bench", "--only", "recording", "--seconds", "600", until=b"1 of 2"
    )
    assert status == 130
    assert output == "" and "Traceback" not in shown and "KeyboardInterrupt" not in shown


@pytest.mark.parametrize("redirection", [">&-", ">&- 2>&-"])
def test_closed_outputs_are_no_error(redirection, trace_file):
    words = ["sh", "-c", f'"$0" replay "$1" {redirection}', COMMAND, trace_file]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "Traceback" not in done.stderr


def test_a_closed_pipe_ends_the_command_silently(trace_file):
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as pipe:
        done = subprocess.run(
            [COMMAND, "replay", trace_file],
            stdout=pipe,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == -signal.SIGPIPE and done.stderr == ""


def test_an_output_that_cannot_be_written_ends_with_2(trace_file):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [COMMAND, "replay", trace_file],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr == "error: cannot write the output: No space left on device\n"


@pytest.mark.parametrize("command", ["convert", "plan", "separate", "report"])
def test_the_input_is_never_the_output(command, tmp_path):
    path = tmp_path / "only.quarry"
    random_trace(1).write(path)
    before = path.read_bytes()
    output = [str(path)] if command == "convert" else ["-o", str(path)]
    result = CliRunner().invoke(app, [command, str(path), *output])
    assert result.exit_code == 2 and "the output is the input" in result.output
    assert path.read_bytes() == before


def test_separate_ends_with_1_if_the_other_part_does_not_fit(trace_file):
    result = CliRunner().invoke(app, ["separate", str(trace_file), "--capacity", "4KiB"])
    assert result.exit_code == 1
    assert "allocations failed" in result.output


def test_the_shell_completes_commands():
    environment = {
        "_QUARRY_COMPLETE": "complete_bash",
        "COMP_WORDS": "quarry re",
        "COMP_CWORD": "1",
    }
    done = subprocess.run([COMMAND], capture_output=True, text=True, env=environment, check=False)
    assert set(done.stdout.split()) == {"record", "replay", "report"}


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_the_script_for_bash_completes_a_command():
    script = without_terminal("--show-completion", "bash")
    assert script.returncode == 0
    completing = "COMP_WORDS=(quarry gr); COMP_CWORD=1; _quarry_completion quarry; echo $COMPREPLY"
    done = subprocess.run(
        ["bash", "-c", script.stdout + completing],
        env={"PATH": f"{COMMAND.parent}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["graph"], done.stderr
    assert run("--show-completion", "no-shell").exit_code == 2
