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

pytestmark = needs_gpu


@needs("cupy")
def test_a_cupy_program_gives_the_same_sums_and_the_usual_exception():
    stock, ours = run("cupy_arrays.py", "stock"), run("cupy_arrays.py", "quarry")
    assert ours["sums"] == stock["sums"]
    assert ours["failure"][0].startswith("Out of memory allocating 8,589,934,592 bytes")
    assert "limit set to: 4,294,967,296 bytes" in ours["failure"][0]
    assert f"no memory for {8 << 30} bytes" in ours["failure"][1]
    assert ours["sum after"] == 1000.0
    assert ours["is restored"]
    assert ours["counts"]["invalid_frees"] == 0
    assert ours["audit"] == []


@needs("numba")
def test_a_numba_program_gives_the_same_sums_and_the_usual_exception():
    stock, ours = run("numba_kernels.py", "stock"), run("numba_kernels.py", "quarry")
    assert stock["sums"][:10] == [(float(number) * (1 << 20)).hex() for number in range(10)]
    assert ours["sums"] == stock["sums"]
    assert ours["failure"][0] == 2
    assert f"no memory for {4 << 30} bytes" in ours["failure"][1]
    assert ours["after"] == 1000.0
    assert ours["has memory info"]
    assert "in use already" in ours["second"]
    assert ours["counts"]["invalid_frees"] == 0
    assert ours["audit"] == []


@needs("rmm")
def test_rmm_allocates_from_the_pool():
    result = run("rmm_buffers.py", "resource")
    assert result["is equal"]
    assert (result["in use"], result["in use at the end"]) == (10, 0)
    assert result["adaptor's bytes"] == 1 << 20
    assert f"no memory for {2 << 30} bytes" in result["failure"][1]
    assert (result["invalid_frees"], result["audit"]) == (0, [])


@needs("rmm")
@needs("cupy")
def test_the_pool_takes_its_blocks_from_rmm():
    result = run("rmm_buffers.py", "upstream")
    assert result["sum"] == 499_500.0
    assert result["upstream's bytes"] == result["reserved"] > 0
    assert result["upstream's bytes at the end"] == result["reserved at the end"] == 0
    assert (result["invalid_frees"], result["audit"]) == (0, [])


@pytest.mark.parametrize(
    ("program", "name"),
    [
        pytest.param("cupy_arrays.py", "cupy", marks=needs("cupy")),
        pytest.param("numba_kernels.py", "numba", marks=needs("numba")),
        pytest.param("rmm_buffers.py", "rmm", marks=needs("rmm")),
    ],
)
def test_a_recording_has_the_allocations(program, name, tmp_path):
    path = tmp_path / "arrays.quarry"
    run(program, "resource" if name == "rmm" else "quarry", str(path))
    trace = quarry.read_trace(path)
    assert name in trace.allocators
    kind = trace.kind
    allocations = np.count_nonzero(kind == Kind.ALLOCATE)
    assert allocations > 5
    assert np.count_nonzero(kind == Kind.DEALLOCATE) <= allocations
    is_allocation = kind == Kind.ALLOCATE
    assert (trace.granted[is_allocation] >= trace.size[is_allocation]).all()
    sites = {trace.call_sites[number] for number in trace.call_site[is_allocation]}
    assert any(program in site for site in sites)
    assert not any(f"/{name}/" in site for site in sites)  # the framework's own code is hidden


@needs("cupy")
@needs("torch")
def test_two_recordings_have_the_events_of_two_frameworks(tmp_path):
    command, program = tmp_path / "command.quarry", tmp_path / "program.quarry"
    arguments = [Path(sys.executable).with_name("quarry"), "record", "-o", command, "--"]
    arguments += [sys.executable, "-P", PROGRAMS / "two_frameworks.py", "quarry", program]
    ended = subprocess.run(arguments, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stderr[-4000:]
    ours = json.loads(next(line for line in ended.stdout.splitlines() if line.startswith("{")))
    assert ours["problems"] == ours["audit"] == [] and ours["is done"]
    assert ours["sums"] == run("two_frameworks.py", "stock")["sums"]
    assert ours["counts"]["invalid_frees"] == 0
    traces = [quarry.read_trace(path) for path in (command, program)]
    for trace in traces:
        assert {"pytorch", "cupy", "blocks of the pool"} <= set(trace.allocators)
        is_allocation = trace.kind == Kind.ALLOCATE
        assert np.count_nonzero(is_allocation) >= ours["counts"]["allocations"]
    for column in ("kind", "address", "size", "granted"):
        theirs, mine = (trace.columns()[column] for trace in traces)
        assert np.array_equal(np.sort(theirs), np.sort(mine))
    for path in (command, program):
        result = quarry.replay(path)
        assert result.unknown_frees == result.repeated_addresses == 0


@pytest.mark.parametrize(
    "framework", [pytest.param(name, marks=needs(name)) for name in ("numba", "cupy")]
)
def test_kernels_allocate_from_a_heap(framework):
    result = run("kernel_heap.py", framework)
    assert result["distinct"] == result["in use"] == 1 << 16
    assert result["in use at the end"] == 0
    assert result.get("wrong", 0) == 0
    assert (result["fault"], result["audit"]) == (None, [])
