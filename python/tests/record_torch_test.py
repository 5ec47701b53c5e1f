# SPDX-License-Identifier: Apache-2.0
"""`quarry record --torch` with a package in place of PyTorch; plugins/torch_test.py has PyTorch."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import quarry
from quarry import Kind

COMMAND = Path(sys.executable).with_name("quarry")
# What the hook uses of torch.cuda. A history has an allocation for each call of `allocate`.
TORCH_CUDA = '''
from . import memory
_queued, _history, _options = [], [], None

def _lazy_call(work):
    _queued.append(work)

def allocate(size):
    """As an operator on the GPU: its first call makes the context, and runs the queue."""
    while _queued:
        _queued.pop(0)()
    if _options is not None:
        frames = [{"filename": "train.py", "line": 7, "name": "step"}]
        entry = {"action": "alloc", "addr": 4096 + 2**20 * len(_history), "size": size}
        entry |= {"stream": 0, "time_us": len(_history), "frames": frames}
        _history.append(entry if _options["context"] else entry | {"frames": []})
'''
TORCH_MEMORY = '''
import pickle
from torch import cuda

def _record_memory_history(**options):
    assert options["enabled"] == "all" and options["stacks"] == "python"
    cuda._options = options

def _dump_snapshot(path):
    with open(path, "wb") as file:
        pickle.dump({"segments": [], "device_traces": [cuda._history]}, file)
'''


@pytest.fixture
def torch_folder(tmp_path):
    """A folder with a package `torch`, and with a sitecustomize of the user."""
    folder = tmp_path / "packages"
    (folder / "torch" / "cuda").mkdir(parents=True)
    (folder / "torch" / "__init__.py").write_text("from . import cuda\n")
    (folder / "torch" / "cuda" / "__init__.py").write_text(TORCH_CUDA)
    (folder / "torch" / "cuda" / "memory.py").write_text(TORCH_MEMORY)
    (folder / "sitecustomize.py").write_text("import sys; sys.is_customized = True\n")
    return folder


def record(folder, program, *options):
    path = folder.parent / "out.quarry"
    done = subprocess.run(
        [COMMAND, "record", "--json", *options, "-o", path, "--", sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": os.fspath(folder)},
    )
    assert done.returncode == 0, done.stderr
    values = json.loads(done.stdout.splitlines()[-1])
    assert not list(folder.parent.glob("*.snapshot*"))
    return values["traces"], done.stderr


def test_an_unchanged_program_is_recorded(torch_folder):
    program = """
import sys, torch
assert sys.is_customized and "record_hook" not in "".join(sys.path)
torch.cuda.allocate(100)
torch.cuda.allocate(200)
"""
    for options, sites in ((["--call-sites"], ["train.py:7 step"] * 2), ([], ["", ""])):
        traces, _ = record(torch_folder, program, "--torch", *options)
        (path,) = [each["trace"] for each in traces]
        assert path == os.fspath(torch_folder.parent / "out.quarry")
        trace = quarry.read_trace(path)
        assert list(trace.kind) == [Kind.ALLOCATE] * 2 and list(trace.size) == [100, 200]
        assert [trace.call_sites[number] for number in trace.call_site] == sites


def test_without_the_option_or_without_the_gpu_pytorch_keeps_no_history(torch_folder):
    assert record(torch_folder, "import torch; torch.cuda.allocate(100)")[0] == []
    assert record(torch_folder, "import torch", "--torch")[0] == []
    assert record(torch_folder, "print('no torch')", "--torch")[0] == []


def test_pools_of_quarry_and_children_have_traces_beside_the_history(torch_folder):
    program = """
import multiprocessing, quarry, torch
def work():
    torch.cuda.allocate(300)
torch.cuda  # imported, but not used: a forked child can use the GPU
process = multiprocessing.get_context("fork").Process(target=work)
process.start()
process.join()
quarry.Pool().allocate(100)
torch.cuda.allocate(200)
"""
    traces, _ = record(torch_folder, program, "--torch")
    assert [each["peak_allocated"] for each in traces] == [100, 200, 300] or [
        each["peak_allocated"] for each in traces
    ] == [100, 300, 200]  # in the order of the process ids


def test_a_history_that_is_not_written_is_named(torch_folder):
    path = torch_folder.parent / "out.quarry"
    use = "import os, resource, torch; [torch.cuda.allocate(100) for _ in range(500)]; "
    for end, status, key in (
        ("os._exit(0)", 0, "incomplete"),
        ("resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))", 2, "failures"),
    ):
        program = [sys.executable, "-c", use + end]
        done = subprocess.run(
            [COMMAND, "record", "--json", "--torch", "-o", path, "--", *program],
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | {"PYTHONPATH": os.fspath(torch_folder)},
        )
        assert done.returncode == status, done.stderr
        values = json.loads(done.stdout)
        assert values["traces"] == [] and not list(torch_folder.parent.glob("*.snapshot*"))
        (text,) = values[key]
        assert text.startswith(f"{path}: PyTorch's allocations are ")


def test_a_signal_to_record_keeps_the_history(torch_folder):
    program = """
import os, signal, sys, time, torch
torch.cuda.allocate(100)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))
os.kill(os.getppid(), signal.SIGTERM)
while True:
    time.sleep(0.01)
"""
    path = torch_folder.parent / "out.quarry"
    done = subprocess.run(
        [COMMAND, "record", "--torch", "-o", path, "--", sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": os.fspath(torch_folder)},
        timeout=60,
    )
    assert done.returncode == 5, done.stderr
    assert len(quarry.read_trace(path)) == 1


def test_the_plug_in_records_in_place_of_the_history(torch_folder):
    program = """
import sys, torch, quarry.torch
quarry.torch.is_in_use = lambda: True
torch.cuda.allocate(100)
assert torch.cuda._options is None
"""
    assert record(torch_folder, program, "--torch")[0] == []


def test_a_pytorch_without_a_history_is_named_and_the_program_runs_on(torch_folder):
    (torch_folder / "torch" / "cuda" / "memory.py").write_text("")
    traces, messages = record(
        torch_folder, "import torch; torch.cuda.allocate(1); print('goes on')", "--torch"
    )
    assert traces == []
    assert "quarry record: PyTorch's allocations are not recorded" in messages
    assert "_record_memory_history" in messages
