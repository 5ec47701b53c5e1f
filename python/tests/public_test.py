# SPDX-License-Identifier: Apache-2.0
"""Every public name of the package is documented, and its types can be checked."""

import importlib
import importlib.util
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import quarry

MODULES = [
    "quarry",
    "quarry.cupy",
    "quarry.kernels",
    "quarry.numba",
    "quarry.plugins",
    "quarry.registry",
    "quarry.rmm",
    "quarry.torch",
]
CONFIGURATION = Path(__file__).resolve().parents[2] / "pyproject.toml"


def public_objects():
    """Pairs of a name and an object: all names of `__all__`, and the members of their classes."""
    found = {}
    for module_name in MODULES:
        module = importlib.import_module(module_name)
        found[module_name] = module
        for name in module.__all__:
            found.setdefault(f"{module_name}.{name}", getattr(module, name))
    for path, value in list(found.items()):
        if not inspect.isclass(value):
            continue
        for name, member in inspect.getmembers(value):
            owner = next((base for base in value.__mro__ if name in vars(base)), object)
            is_ours = owner.__module__.startswith("quarry") and not name.startswith("_")
            is_documentable = callable(member) or isinstance(member, property)
            if is_ours and is_documentable:
                found[f"{path}.{name}"] = member
    return found


def documentation(value):
    """The text without the signatures that the compiled module puts before it."""
    lines = (inspect.getdoc(value) or "").splitlines()
    while lines and re.match(r"\w+\(.*\)( -> .*)?$", lines[0]):
        lines.pop(0)
    return "\n".join(lines).strip()


def test_every_public_name_has_a_text():
    objects = public_objects()
    assert len(objects) > 150
    missing = [
        path
        for path, value in objects.items()
        if not isinstance(value, (str, int)) and not re.search(r"\w.*[.:]", documentation(value))
    ]
    assert missing == []


def test_the_text_of_a_function_names_its_options():
    """Paths, traces, callables and the parameters that a name explains need no words."""
    explained = {"self", "path", "trace", "output", "options", "args", "names", "text", "heap"}
    explained |= {"source", "resource", "address", "size", "shape", "dtype", "name", "columns"}
    explained |= {"requested_schema", "allocator", "heuristic", "growth_percent", "shrink_after"}
    missing = []
    for path, value in public_objects().items():
        if not inspect.isfunction(value):
            continue
        text = documentation(value) + documentation(inspect.getmodule(value))
        missing += [
            f"{path}: {name}"
            for name in inspect.signature(value).parameters
            if name not in explained and f"`{name}`" not in text and name not in text.split()
        ]
    assert missing == []


def test_all_lists_the_public_names_in_order():
    for module_name in MODULES:
        names = importlib.import_module(module_name).__all__
        assert len(set(names)) == len(names), module_name
    assert "RoutedPool" in quarry.__all__ and "read_batches" in quarry.__all__


def test_the_installed_package_has_the_files_of_type_checkers():
    folder = Path(quarry.__file__).parent
    assert (folder / "py.typed").exists()
    assert "class Pool:" in (folder / "_core.pyi").read_text("utf-8")


@pytest.mark.skipif(
    importlib.util.find_spec("mypy") is None, reason="mypy is not installed: pip install mypy"
)
def test_mypy_finds_no_wrong_type():
    command = [sys.executable, "-m", "mypy", "--config-file", str(CONFIGURATION), "-p", "quarry"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
