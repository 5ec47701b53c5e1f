# SPDX-License-Identifier: Apache-2.0
"""What `import quarry` loads: little, so that it is quick and needs no CUDA."""

import subprocess
import sys

import pytest

PROGRAM = """
import sys
import quarry
assert quarry.parse_size("4KiB") == 4096
print(*sys.modules)
print(open("/proc/self/maps").read())
"""


@pytest.fixture(scope="module")
def loaded():
    """The modules of a program that imports quarry, and the files that it maps."""
    output = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    ).stdout
    modules, maps = output.split("\n", 1)
    return modules.split(), maps


def test_an_import_loads_no_package_that_only_commands_or_plug_ins_need(loaded):
    modules, _ = loaded
    assert "quarry" in modules and "numpy" in modules
    rarely_needed = {"cupy", "matplotlib", "numba", "plotly", "pyarrow", "rich", "torch", "typer"}
    assert not rarely_needed.intersection(modules)


def test_an_import_loads_no_library_of_cuda(loaded):
    _, maps = loaded
    assert "_core" in maps
    assert "libcuda" not in maps
