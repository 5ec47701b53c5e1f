# SPDX-License-Identifier: Apache-2.0
"""Names of files that are not UTF-8."""

import json
import os

import pytest
from typer.testing import CliRunner

import quarry
from quarry.cli import app
from quarry.command_line.new_files import new_files
from quarry.names import printable


@pytest.fixture
def folder(tmp_path):
    """A folder with a trace; neither name is UTF-8."""
    result = tmp_path / os.fsdecode(b"f\xff")
    try:
        result.mkdir()
    except OSError:
        pytest.skip("the file system takes no such names")
    (result / os.fsdecode(b"\xfe.txt")).write_text("a 1 5\na 2 7\nf 1\nf 2\n")
    return result


@pytest.fixture
def path(folder):
    return folder / os.fsdecode(b"\xfe.txt")


def test_all_functions_take_such_names(folder, path):
    trace = quarry.read_trace(path)
    assert os.fspath(path) == trace.path
    assert quarry.replay(path).pool.peak_allocated == 12
    assert quarry.tune(path, candidates="published").events == 4
    assert quarry.separate(path).learned_events == 2
    assert sum(len(batch) for batch in quarry.read_batches(path, events=3)) == 4
    output = folder / os.fsdecode(b"\xfd")
    assert quarry.convert(path, output)["events"] == 4
    assert len(quarry.read_trace(output)) == 4
    trace.write(output)
    plan = quarry.make_plan(path)
    plan.save(output)
    planned = quarry.replay(path, strategy="planned", plan=output)
    assert planned.pool.peak_reserved == quarry.load_plan(output).bytes
    quarry.RoutingTable([quarry.Route(1)]).save(output)
    assert quarry.RoutingTable.load(output).pools == 2
    with quarry.Recorder(folder / os.fsdecode(b"\xfc")) as recorder:
        quarry.Pool(recorder=recorder).allocate(9)
    assert quarry.replay(folder / os.fsdecode(b"\xfc")).pool.peak_allocated == 9


def test_messages_show_the_bytes(folder, path):
    with pytest.raises(quarry.ResourceFailed, match=r"f\\xff/\\xfb: cannot open the file"):
        quarry.read_trace(folder / os.fsdecode(b"\xfb"))
    path.write_text("a 1 5\nbad\n")
    assert r"f\xff/\xfe.txt:2: the line is neither" in quarry.read_trace(path).problems[0]
    path.write_text("bad\n")
    with pytest.raises(quarry.BadTrace, match=r"\\xfe.txt: the format is unknown"):
        quarry.replay(path)
    assert printable(os.fsdecode(b"a\x80\xff\xc3\xbc")) == r"a\x80\xffü"


def test_commands_take_such_names(folder, path, monkeypatch):
    monkeypatch.chdir(folder)
    name, output = path.name, os.fsdecode(b"out\xfd")
    for words in (
        ["replay", name],
        ["tune", name, "--candidates", "published"],
        ["separate", name],
        ["plan", name, "-o", output],
        ["convert", name, output],
        ["report", name, "-o", output],
    ):
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, (words, result.output)
        if output in words:
            assert r"out\xfd" in result.stdout, words
    assert r"<h1>\xfe.txt</h1>" in (folder / output).read_text("utf-8")
    found = json.loads(CliRunner().invoke(app, ["replay", name, "--json"]).stdout)
    assert found["trace"] == name


def test_an_error_in_such_a_folder_names_the_file_in_place_of_the_temporary_one(folder):
    output = os.fspath(folder / "out")
    with pytest.raises(OSError) as raised, new_files(output) as [temporary]:
        raise OSError(f"{printable(temporary)}: cannot write the file: No space")
    assert str(raised.value) == f"{printable(output)}: cannot write the file: No space"
    assert not os.path.exists(output)
