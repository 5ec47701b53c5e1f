# SPDX-License-Identifier: Apache-2.0
"""Python imports this module when a program starts under `quarry record --torch`.

When the program first uses the GPU with PyTorch, PyTorch's own history of allocations begins. The
process writes the history when it exits, and `quarry record` converts the file. Problems are
messages on standard error; the program runs on. This folder has no other module of Quarry, because
the program's environment may have no Quarry.
"""

import importlib.abc
import importlib.machinery
import os
import sys
from pathlib import Path

from quarry_process_end import at_process_end
from quarry_trace_note import TraceNote

_MODULE = "torch.cuda"


class _TorchFinder(importlib.abc.MetaPathFinder):
    """Finds torch.cuda as Python does, and attaches the history after its import."""

    def find_spec(self, fullname, path=None, target=None):
        if fullname != _MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def execute_and_attach(module):
            execute(module)
            _attempt(lambda: module._lazy_call(lambda: _attempt(lambda: _start(module))))

        spec.loader.exec_module = execute_and_attach
        return spec


def _attempt(work):
    try:
        work()
    except Exception as failed:
        print(f"quarry record: PyTorch's allocations are not recorded: {failed!r}", file=sys.stderr)


def _start(cuda):
    """Runs in the program when PyTorch has made the GPU's context."""
    plugin = sys.modules.get("quarry.torch")
    if plugin is not None and plugin.is_in_use():
        return  # Quarry's pools serve PyTorch, and record
    has_call_sites = bool(os.environ.get("QUARRY_RECORD_CALL_SITES"))
    cuda.memory._record_memory_history(
        enabled="all", context="all" if has_call_sites else None, stacks="python"
    )
    path = os.environ["QUARRY_RECORD"]
    note = TraceNote(path, "PyTorch's allocations")
    at_process_end(lambda: _write(cuda, path, note))


def _write(cuda, path, note):
    snapshot = f"{path}.{os.getpid()}.snapshot"
    part = f"{snapshot}.part"
    try:
        cuda.memory._dump_snapshot(part)
        os.replace(part, snapshot)
    except Exception as failed:
        if os.path.exists(part):
            os.remove(part)
        note.fail(f"{path}: PyTorch's allocations are not recorded: {failed!r}")
    else:
        note.remove()


def _import_next():
    """Imports the sitecustomize that this one hides, if there is one."""
    folder = Path(__file__).parent
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").absolute() != folder]
    this_module = sys.modules.pop("sitecustomize")
    try:
        import sitecustomize  # noqa: F401
    except ImportError as failed:
        if failed.name != "sitecustomize":
            raise
    finally:
        sys.modules.setdefault("sitecustomize", this_module)


sys.meta_path.insert(0, _TorchFinder())
_import_next()
