# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from plugins.runs import needs, needs_gpu, run

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
    for what in ("sums", "value", "totals"):
        assert ours[what] == stock[what]
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
