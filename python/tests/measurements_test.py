# SPDX-License-Identifier: Apache-2.0
import json

import pytest
from typer.testing import CliRunner

import quarry
from quarry import _core, measurements
from quarry.cli import app

FORM = ["bench", "params", "value", "spread", "unit", "machine", "date", "commit"]


def test_each_line_is_a_record_of_the_results(monkeypatch, trace_file):
    monkeypatch.setattr(_core, "cuda_devices", list)  # a GPU's pools take longer
    result = CliRunner().invoke(app, ["bench", str(trace_file), "--json", "--seconds", "0.1"])
    assert result.exit_code == 0
    records = [json.loads(line) for line in result.stdout.splitlines()]
    assert [record["bench"] for record in records] == (
        ["pool/pair"] * 2 * len(measurements.POOLS)
        + ["trace/record"] * 2
        + ["trace/replay"] * len(measurements.REPLAYED)
    )
    for record in records:
        assert list(record) == FORM
        spread = record["spread"]
        assert spread["runs"] >= 1 and spread["p10"] <= record["value"] <= spread["p90"]
    assert all(r["value"] > 0 for r in records if r["bench"] != "trace/record")


def test_the_environment_names_machine_and_commit(monkeypatch):
    monkeypatch.setenv("QUARRY_MACHINE", "abacus")
    monkeypatch.setenv("QUARRY_COMMIT", "f00")
    monkeypatch.setenv("QUARRY_DATE", "2026-01-01")
    [case, *_] = measurements.cases(None, "recording")
    record = measurements.record_of(case, 0.01)
    assert (record["machine"], record["commit"], record["date"]) == ("abacus", "f00", "2026-01-01")


def test_a_gpu_adds_its_pools(monkeypatch):
    class Device:
        name = "a GPU"

    monkeypatch.setattr(_core, "cuda_devices", lambda: [Device()])
    pools = {case.params["pool"] for case in measurements.cases(None, "pools") if case.bench}
    assert pools == {*measurements.POOLS, "cuda-async"}
    assert measurements.machine().endswith(", a GPU")


def test_a_measurement_that_fails_says_why():
    def refuse(seconds):
        raise quarry.OutOfMemory("no memory")

    record = measurements.record_of(measurements.Case("pool/pair", {}, "ns", refuse), 1)
    assert record["value"] is None and record["params"] == {"error": "no memory"}


@pytest.mark.parametrize("words", [["--only", "x"], ["--only", "replay"], ["--seconds", "0"]])
def test_bad_options_end_with_2(words):
    assert CliRunner().invoke(app, ["bench", *words]).exit_code == 2


def test_the_table_has_a_row_for_each_measurement():
    result = CliRunner().invoke(app, ["bench", "--only", "recording", "--seconds", "0.1"])
    assert result.stdout.splitlines()[0].split() == ["measurement", "median", "p10", "p90", "unit"]
    assert len(result.stdout.splitlines()) == 3


@pytest.mark.parametrize("pool", ["psychic", "cuda-async"])
def test_an_unknown_pool_is_refused(pool):
    with pytest.raises(quarry.BadArgument, match=f"no pool '{pool}'"):
        _core.measure_pool(pool, device=None, live=1, max_size=1, seconds=0.01)
