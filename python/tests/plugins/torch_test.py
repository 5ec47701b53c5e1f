# SPDX-License-Identifier: Apache-2.0
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from plugins.runs import PROGRAMS, needs, needs_gpu, run

import quarry
from quarry import Kind

pytestmark = [needs_gpu, needs("torch")]


@pytest.mark.parametrize("allocator", ["quarry", "pool"])
@pytest.mark.parametrize("model", ["gpt", "resnet"])
def test_training_gives_the_same_losses_and_weights_as_the_stock_allocator(model, allocator):
    stock, ours = run("training.py", model, "stock"), run("training.py", model, allocator)
    assert len(set(stock["losses"])) == len(stock["losses"]) == 8
    assert ours["losses"] == stock["losses"]
    assert ours["weights"] == stock["weights"]
    assert ours["counts"]["invalid_frees"] == 0
    assert ours["counts"]["allocations"] > 0
    assert ours["audit"] == []


@pytest.mark.parametrize("allocator", ["quarry", "pool"])
def test_streams_and_threads_give_the_same_results(allocator):
    stock, ours = run("torch_streams.py", "stock"), run("torch_streams.py", allocator)
    assert stock["sums"] == [float((number + 1) << 22) for number in range(20)]
    for key in ("sums", "value", "totals"):
        assert ours[key] == stock[key]
    assert ours["audit"] == []
    assert ours["counts"]["invalid_frees"] == 0


def test_the_streams_program_notices_a_missing_record_stream():
    assert run("torch_streams.py", "unrecorded")["sums"] != run("torch_streams.py", "stock")["sums"]


@pytest.mark.parametrize("allocator", ["quarry", "pool"])
def test_out_of_memory_raises_the_usual_exception_and_the_program_goes_on(allocator):
    result = run("torch_memory.py", allocator)
    for where in ("direct", "held", "backward"):
        assert result[where]["type"] == "OutOfMemoryError", result[where]
    assert "no memory for" in result["last_error"]
    if allocator == "quarry":
        assert f"no memory for {2 << 30} bytes" in result["direct"]["text"]
    assert result["sum"] == float((1 << 20) * ((1 << 20) - 1))
    assert result["after"] == {"type": None}
    assert "before the first allocation" in result["late options"]
    if allocator == "quarry":
        assert result["in use at the end"] <= 2  # the workspaces of PyTorch's libraries
    assert result["invalid_frees"] == 0
    assert result["audit"] == []


def test_graphs_are_refused_without_the_caching_allocator_and_work_in_a_pool():
    result = run("torch_memory.py", "quarry")
    assert "quarry.torch.pool()" in result["graph"]
    assert "in use already" in result["second"]
    assert run("torch_memory.py", "pool")["graph"] == 42_000.0


@pytest.mark.parametrize("allocator", ["quarry", "pool"])
def test_a_recording_has_every_allocation_and_free(allocator, tmp_path):
    path = tmp_path / "training.quarry"
    result = run("training.py", "gpt", allocator, "3", str(path))
    trace = quarry.read_trace(path)
    kind = trace.kind
    assert np.count_nonzero(kind == Kind.ALLOCATE) >= result["counts"]["allocations"]
    name = "pytorch" if allocator == "quarry" else "pytorch segments"
    assert {name, "blocks of the pool"} <= set(trace.allocators)
    assert trace.size[kind == Kind.RESERVE].sum() >= result["peak_reserved"]
    replayed = quarry.replay(path)
    assert replayed.fits
    is_allocation = kind == Kind.ALLOCATE
    assert (trace.granted[is_allocation] >= trace.size[is_allocation]).all()
    sites = [trace.call_sites[number] for number in trace.call_site[is_allocation]]
    assert not any("/torch/" in site for site in sites)
    # Segments have no call sites. Allocations of autograd's threads have none, either.
    assert any("training.py" in site for site in sites) == (allocator == "quarry")


def record(path, allocator, *options):
    """What the program and `quarry record` print."""
    command = [Path(sys.executable).with_name("quarry"), "record", "--json", *options, "-o", path]
    program = ["--", sys.executable, "-P", PROGRAMS / "training.py", "gpt", allocator, "3"]
    done = subprocess.run([*command, *program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    result, summary = (json.loads(line) for line in done.stdout.splitlines()[-2:])
    return result, summary["traces"], done.stderr


def test_record_keeps_the_history_of_an_unchanged_program(tmp_path):
    path = tmp_path / "out.quarry"
    result, traces, messages = record(path, "stock", "--torch", "--call-sites")
    assert "not recorded" not in messages
    assert [each["trace"] for each in traces] == [str(path)]
    assert result["losses"] == run("training.py", "gpt", "stock", "3")["losses"]
    trace = quarry.read_trace(path)
    assert traces[0]["peak_reserved"] >= result["peak_reserved"]
    assert traces[0]["peak_allocated"] > result["peak_allocated"] // 2
    sites = [trace.call_sites[number] for number in trace.call_site[trace.kind == Kind.ALLOCATE]]
    assert sum("training.py" in site for site in sites) > len(sites) // 4


@pytest.mark.parametrize("options", [[], ["--torch"]])
def test_record_takes_the_plug_in_s_events(options, tmp_path):
    path = tmp_path / "out.quarry"
    result, traces, messages = record(path, "quarry", *options)
    assert "not recorded" not in messages
    assert [each["trace"] for each in traces] == [str(path)]
    trace = quarry.read_trace(path)
    assert {"pytorch", "blocks of the pool"} <= set(trace.allocators)
    allocations = np.count_nonzero(trace.kind == Kind.ALLOCATE)
    assert allocations >= result["counts"]["allocations"]
    assert traces[0]["peak_reserved"] >= result["peak_reserved"]
