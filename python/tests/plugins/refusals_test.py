# SPDX-License-Identifier: Apache-2.0
"""What the plug-ins refuse. Needs no GPU."""

import importlib
import sys

import pytest

import quarry
import quarry.plugins
from quarry import _core

PLUGINS = ["torch", "cupy", "numba", "rmm"]


@pytest.mark.parametrize("name", PLUGINS)
def test_a_missing_framework_is_named(name, monkeypatch):
    plugin = importlib.import_module(f"quarry.{name}")
    monkeypatch.setattr(_core, "has_cuda", True)
    for module in (name, "numba.cuda"):
        monkeypatch.setitem(sys.modules, module, None)  # an import fails
    with pytest.raises(quarry.ResourceFailed, match=f"quarry.{name}: .* cannot be imported"):
        plugin.use()


@pytest.mark.parametrize("name", PLUGINS)
def test_a_build_without_cuda_says_so(name, monkeypatch):
    plugin = importlib.import_module(f"quarry.{name}")
    monkeypatch.setattr(_core, "has_cuda", False)
    with pytest.raises(quarry.ResourceFailed, match="no CUDA"):
        plugin.use()


def test_a_machine_without_a_gpu_is_named():
    if _core.cuda_devices():
        pytest.skip("there is a GPU")
    with pytest.raises(quarry.ResourceFailed, match="there is no GPU"):
        quarry.plugins.prepare("quarry.torch", None, False, {})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"capacity": "much"}, "is not a size"),
        ({"device": 64}, "device is 64"),
        ({"device": -2}, "device is -2"),
    ],
)
def test_bad_options_raise_value_error(options, message):
    with pytest.raises(ValueError, match=message):
        quarry.plugins.configure(**options)


def test_without_a_pool_there_is_nothing_to_count_or_release():
    counts = quarry.plugins.counts(7)
    assert (counts.reserved, counts.allocations) == (0, 0)
    assert quarry.plugins.audit(7) == []
    quarry.plugins.release()
    quarry.plugins.release(7)


def test_an_allocation_that_fails_leaves_its_message():
    with pytest.raises(quarry.Error) as caught:
        _core.plugin_allocate(_core.Framework.CUPY, 1 << 60, 63)
    assert quarry.plugins.last_error() == str(caught.value)


def test_one_recording_at_a_time(tmp_path):
    quarry.plugins.start_recording(tmp_path / "one.quarry")
    with pytest.raises(quarry.BadState, match="stop it"):
        quarry.plugins.start_recording(tmp_path / "two.quarry")
    assert quarry.plugins.stop_recording()
    assert not quarry.plugins.stop_recording()
    assert len(quarry.read_trace(tmp_path / "one.quarry")) == 0
    with pytest.raises(quarry.ResourceFailed):
        quarry.plugins.start_recording(tmp_path / "no folder" / "one.quarry")


def test_a_kernel_needs_a_heap_on_the_gpu():
    from quarry import kernels

    with pytest.raises(quarry.BadArgument, match="backend is cpu"):
        kernels.words_of(quarry.Heap(8 << 20, backend="cpu"))
