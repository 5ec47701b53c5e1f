# SPDX-License-Identifier: Apache-2.0
"""The files that commands write are complete, or as they were before."""

import contextlib
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from quarry.cli import app
from quarry.command_line.new_files import new_files

WRITERS = {
    "convert": ["convert", "TRACE", "OUTPUT"],
    "convert to RMM": ["convert", "TRACE", "OUTPUT", "--to", "rmm"],
    "plan": ["plan", "TRACE", "--max-steps", "1000", "-o", "OUTPUT"],
    "separate": ["separate", "LAYERED", "-o", "OUTPUT"],
    "tune": ["tune", "LAYERED", "--capacity", "450MiB", "-o", "OUTPUT"],
    "report": ["report", "TRACE", "-o", "OUTPUT"],
    "picture": ["report", "TRACE", "-o", os.devnull, "--png", "OUTPUT"],
}


@pytest.fixture
def inputs(trace_file, layered_file):
    """The files that stand for TRACE and LAYERED."""
    return {"TRACE": str(trace_file), "LAYERED": str(layered_file)}


def run(writer, inputs, output, *more):
    if writer == "picture":
        pytest.importorskip("matplotlib")
    names = inputs | {"OUTPUT": str(output)}
    return CliRunner().invoke(app, [names.get(word, word) for word in WRITERS[writer]] + [*more])


@contextlib.contextmanager
def largest_file(size):
    """Writes beyond `size` bytes fail, as on a full disk: Python ignores SIGXFSZ."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("writer", WRITERS)
def test_a_full_disk_names_the_file_and_changes_nothing(writer, inputs, tmp_path):
    output = tmp_path / "older.png"
    output.write_text("older")
    with largest_file(500):
        result = run(writer, inputs, output)
    assert result.exit_code == 2 and result.stdout == ""
    assert result.stderr == f"error: {output}: cannot write the file: File too large\n"
    assert output.read_text() == "older" and os.listdir(tmp_path) == ["older.png"]


@pytest.mark.parametrize("writer", [name for name in WRITERS if name != "picture"])
def test_a_full_device_is_named(writer, inputs):
    result = run(writer, inputs, "/dev/full")
    assert result.exit_code == 2
    message = "/dev/full: cannot write the file: No space left on device"
    assert result.stderr == f"error: {message}\n"
    result = run(writer, inputs, "/dev/full", "--json")
    assert result.exit_code == 2 and result.stderr == ""
    assert json.loads(result.stdout)["error"] == message


@pytest.mark.parametrize("writer", WRITERS)
def test_a_complete_file_replaces_an_older_one(writer, inputs, tmp_path):
    output = tmp_path / "older.png"
    output.write_text("older")
    output.chmod(0o640)
    assert run(writer, inputs, output).exit_code == 0
    assert len(output.read_bytes()) > 500 and os.listdir(tmp_path) == ["older.png"]
    assert output.stat().st_mode & 0o777 == 0o640


def test_a_report_without_its_picture_is_not_written(trace_file, tmp_path):
    pytest.importorskip("matplotlib")
    words = ["report", str(trace_file), "-o", str(tmp_path / "page.html"), "--png", "/dev/full"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 2 and "a picture ends in" in result.stderr
    (tmp_path / "full.png").symlink_to("/dev/full")
    result = CliRunner().invoke(app, [*words[:-1], str(tmp_path / "full.png")])
    assert result.exit_code == 2 and "full.png: cannot write the file: No space" in result.stderr
    assert os.listdir(tmp_path) == ["full.png"]


def test_a_new_file_has_the_mode_of_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        with new_files(str(tmp_path / "new")) as [name]:
            Path(name).write_text("new")
    finally:
        os.umask(before)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o640


def test_a_symbolic_link_stays_and_its_file_is_replaced(tmp_path):
    (tmp_path / "link.png").symlink_to("folder/file")
    (tmp_path / "folder").mkdir()
    for text in ("first", "second"):
        with new_files(str(tmp_path / "link.png")) as [name]:
            assert name.endswith(".png")
            Path(name).write_text(text)
        assert (tmp_path / "link.png").is_symlink()
        assert (tmp_path / "folder" / "file").read_text() == text
    assert os.listdir(tmp_path / "folder") == ["file"]


def test_a_pipe_is_written_directly(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with new_files(str(tmp_path / "pipe"), None) as [name, nothing]:
        assert name == str(tmp_path / "pipe") and nothing == ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_no_file(number, tmp_path):
    ended = KeyboardInterrupt if number == signal.SIGINT else SystemExit
    with pytest.raises(ended) as raised, new_files(str(tmp_path / "new")) as [name]:
        Path(name).write_text("half")
        os.kill(os.getpid(), number)
    assert ended is KeyboardInterrupt or raised.value.code == 128 + number
    assert os.listdir(tmp_path) == []
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_names_that_cannot_be_written_are_refused_before_the_work(tmp_path):
    file = tmp_path / "file"
    file.write_text("older")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "nowhere").symlink_to("no/folder")
    for paths, message in (
        ([tmp_path / "file" / "x"], "there is no folder"),
        ([tmp_path], "it is a folder"),
        ([tmp_path / ("x" * 256)], "cannot write the file: File name too long"),
        ([tmp_path / "loop"], "Too many levels of symbolic links"),
        ([tmp_path / "nowhere"], "cannot write the file: No such file or directory"),
        ([file, tmp_path / "." / "file"], "two outputs are this file"),
    ):
        names = [str(path) for path in paths]
        with pytest.raises(OSError, match=re.escape(message)) as raised, new_files(*names):
            raise AssertionError("the work began")
        assert names[0] in str(raised.value) and ".quarry-" not in str(raised.value)
    assert sorted(os.listdir(tmp_path)) == ["file", "loop", "nowhere"]
    assert file.read_text() == "older"


def test_a_folder_may_have_a_name_that_is_not_utf_8(inputs, tmp_path, monkeypatch):
    folder = tmp_path / "\udcfe"
    folder.mkdir()
    (folder / "link").symlink_to(folder / "file")
    monkeypatch.chdir(folder)
    assert run("convert", inputs, "name").exit_code == 0
    assert run("convert", inputs, "link").exit_code == 0
    assert sorted(os.listdir(folder)) == ["file", "link", "name"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_named(tmp_path):
    (tmp_path / "file").write_text("older")
    tmp_path.chmod(0o555)
    with pytest.raises(OSError, match="no permission to make a file in"):
        with new_files(str(tmp_path / "file")):
            raise AssertionError("the work began")
    tmp_path.chmod(0o755)


def test_the_input_is_refused_under_any_name(inputs, tmp_path):
    os.link(inputs["TRACE"], tmp_path / "hard")
    (tmp_path / "soft").symlink_to(inputs["TRACE"])
    before = Path(inputs["TRACE"]).read_bytes()
    for name in ("hard", "soft"):
        result = run("convert", inputs, tmp_path / name)
        assert result.exit_code == 2 and f"{name}: the output is the input" in result.stderr
    assert Path(inputs["TRACE"]).read_bytes() == before


def test_the_standard_output_is_refused(trace_file, tmp_path):
    command = [Path(sys.executable).with_name("quarry"), "convert", trace_file, "/dev/stdout"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("error: /dev/stdout: it is the standard output")


def test_a_file_is_always_that_of_the_last_success(tmp_path):
    seed = random.randrange(1 << 30)
    chosen, expected = random.Random(seed), {}
    for step in range(200):
        names = chosen.sample(["a", "b.png", "c"], chosen.randint(1, 3))
        succeeds = chosen.random() < 0.5
        with (
            contextlib.suppress(ZeroDivisionError),
            new_files(*(str(tmp_path / name) for name in names)) as files,
        ):
            for file in files:
                Path(file).write_text(str(step))
                assert Path(file).suffix == Path(names[files.index(file)]).suffix
            if not succeeds:
                raise ZeroDivisionError
        if succeeds:
            expected |= dict.fromkeys(names, str(step))
        found = {path.name: path.read_text() for path in tmp_path.iterdir()}
        assert found == expected, f"seed {seed}, step {step}"
