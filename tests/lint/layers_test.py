#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks which layer includes which: reads the #include lines of include/quarry/ and src/."""

import re
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

LAYER = re.compile(r"^quarry_layer\((\w+)(?:\s+USES((?:\s+[a-z]+)+))?", re.MULTILINE)


def layers(root=ROOT):
    """Layer -> the layers that it may include besides itself: USES in src/<layer>/layer.cmake."""
    found = {}
    for path in root.glob("src/*/layer.cmake"):
        name, uses = LAYER.search(path.read_text(encoding="utf-8")).groups()
        found[name] = set((uses or "").split())
    return found


MAY_INCLUDE = layers()
# Files directly in include/quarry or src combine layers: they may include every layer, and no
# layer may include them.
UMBRELLA = "umbrella"
SUFFIXES = {".hpp", ".cuh", ".h", ".cpp", ".cu", ".cl"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]')
# core/ must not include headers of CUDA or of an operating system.
FOREIGN_TO_CORE = re.compile(
    r"^(cuda\.h|cuda_runtime.*|cooperative_groups.*|sys/.*|unistd\.h|pthread\.h|thread|mutex)$"
)


def layer_of(path):
    """The layer of a path under include/quarry or src; host.hpp itself also belongs to layer host."""
    name = path.parts[0] if len(path.parts) > 1 else path.stem
    if name in MAY_INCLUDE:
        return name
    return UMBRELLA if len(path.parts) == 1 else None


def place_of_include(root, source, quote, target):
    """The path in include/quarry or src that an #include means, or None if the file is not ours."""
    if target.startswith("quarry/"):
        return Path(target).relative_to("quarry")
    if quote == '"':
        for base in (source.parent, root / "src", root / "include"):
            found = (base / target).resolve()
            for tree in (root / "include" / "quarry", root / "src"):
                if found.is_file() and found.is_relative_to(tree):
                    return found.relative_to(tree)
    return None


def sources(root):
    for tree in (root / "include" / "quarry", root / "src"):
        for path in sorted(tree.rglob("*")):
            if path.suffix in SUFFIXES:
                yield path, path.relative_to(tree)


def violations(root):
    """One line for each #include that the layers forbid, and for each file outside the layers."""
    found = []
    for source, place in sources(root):
        layer = layer_of(place)
        shown = source.relative_to(root)
        if layer is None:
            found.append(
                f"{shown}: '{place.parts[0]}' is no layer; a new layer needs src/<layer>/layer.cmake"
            )
            continue
        for number, line in enumerate(source.read_text(encoding="utf-8").splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            quote, target = match.groups()
            if layer == "core" and FOREIGN_TO_CORE.match(target):
                found.append(
                    f"{shown}:{number}: core includes {target}; core must not include CUDA or system headers"
                )
            included = place_of_include(root, source, quote, target)
            if included is None or layer == UMBRELLA:
                continue
            other = layer_of(included)
            if other != layer and other not in MAY_INCLUDE[layer]:
                allowed = ", ".join(sorted(MAY_INCLUDE[layer])) or "no other layer"
                found.append(
                    f"{shown}:{number}: {layer} includes {target} ({other}); "
                    f"it may include {allowed}"
                )
    return found


def folder_circles(root):
    """The pairs of folders of one layer that include each other, directly or not, with an #include of each. `detail` serves
    all folders of its layer, so it does not count."""
    edges = {}
    for source, place in sources(root):
        for target in re.findall(r'^\s*#\s*include\s*"quarry/([^">]+)"', source.read_text(encoding="utf-8"), re.MULTILINE):
            folder, other = place.parent, Path(target).parent
            if folder != other and folder.parts[:1] == other.parts[:1] and "detail" not in folder.parts + other.parts:
                edges.setdefault(folder, {}).setdefault(other, f"{source.relative_to(root)} includes {target}")
    reached = {folder: set(others) for folder, others in edges.items()}
    for middle in reached:
        for folder in reached:
            if middle in reached[folder]:
                reached[folder] |= reached[middle]
    return sorted(
        f"{folder} and {other} include each other: {how}"
        for folder, others in edges.items()
        for other, how in others.items()
        if folder in reached.get(other, ())
    )


class Layers(unittest.TestCase):
    def test_no_file_includes_a_layer_above_its_own(self):
        self.assertTrue(any(sources(ROOT)), f"no sources under {ROOT}: nothing was checked")
        found = violations(ROOT)
        if found:
            self.fail("\n" + "\n".join(found))

    def test_folders_of_a_layer_form_no_circle(self):
        self.assertEqual(folder_circles(ROOT), [])

    def test_the_table_has_no_cycle(self):
        for layer, below in MAY_INCLUDE.items():
            for other in below:
                self.assertNotIn(
                    layer, MAY_INCLUDE[other], f"{layer} and {other} include each other"
                )
                self.assertLessEqual(
                    MAY_INCLUDE[other],
                    below,
                    f"{layer} reaches a layer through {other} that it may not include",
                )


class PlantedViolations(unittest.TestCase):
    """Each test puts files into its own tree and checks the report."""

    def planted(self, files, check=violations):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder).resolve()
            for name, text in files.items():
                path = root / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            return check(root)

    def test_a_circle_of_folders_is_caught(self):
        found = self.planted(
            {
                "include/quarry/host/pools/a.hpp": '#include "quarry/host/resources/b.hpp"\n',
                "include/quarry/host/resources/b.hpp": '#include "quarry/host/c.hpp"\n',
                "include/quarry/host/c.hpp": '#include "quarry/host/pools/a.hpp"\n',
                "include/quarry/host/detail/d.hpp": '#include "quarry/host/pools/a.hpp"\n',
                "src/host/pools/a.cpp": '#include "quarry/host/detail/d.hpp"\n',
            },
            folder_circles,
        )
        self.assertEqual(len(found), 3)

    def test_an_include_of_a_higher_layer_is_caught_at_its_line(self):
        found = self.planted(
            {"include/quarry/simt/a.hpp": "#pragma once\n#include <quarry/device/heap.hpp>\n"}
        )
        self.assertEqual(len(found), 1)
        self.assertIn(
            "include/quarry/simt/a.hpp:2: simt includes quarry/device/heap.hpp (device)", found[0]
        )

    def test_host_and_device_may_not_include_each_other(self):
        found = self.planted(
            {
                "include/quarry/host/a.hpp": '#include "quarry/device/b.hpp"\n',
                "src/device/b.cpp": "  #  include <quarry/host/a.hpp>\n",
            }
        )
        self.assertEqual(len(found), 2)

    def test_platform_is_above_core_and_below_all_other_layers(self):
        found = self.planted(
            {
                "include/quarry/platform/a.hpp": "#include <quarry/core/b.hpp>\n",
                "src/platform/c.cpp": '#include "quarry/host/d.hpp"\n',
                "include/quarry/core/b.hpp": '#include "quarry/platform/a.hpp"\n',
                "src/simt/e.cpp": '#include "quarry/platform/a.hpp"\n',
                "src/device/f.cpp": '#include "platform/g.hpp"\n',
                "src/host/h.cpp": '#include "platform/g.hpp"\n',
                "src/platform/g.hpp": "#pragma once\n",
            }
        )
        self.assertEqual(len(found), 2)
        self.assertIn("core includes quarry/platform/a.hpp (platform)", found[0])
        self.assertIn("platform includes quarry/host/d.hpp (host)", found[1])

    def test_a_relative_include_is_followed(self):
        found = self.planted(
            {
                "src/core/a.cpp": '#include "../simt/b.hpp"\n',
                "src/simt/b.hpp": "#pragma once\n",
            }
        )
        self.assertEqual(len(found), 1)

    def test_an_umbrella_may_include_all_layers_and_no_layer_may_include_it(self):
        found = self.planted(
            {
                "include/quarry/quarry.hpp": "#include <quarry/host/a.hpp>\n"
                "#include <quarry/device/b.hpp>\n",
                "include/quarry/host/a.hpp": "#include <quarry/quarry.hpp>\n",
                "include/quarry/device/b.hpp": "#include <quarry/core/c.hpp>\n"
                "#include <quarry/simt.hpp>\n",
            }
        )
        self.assertEqual(len(found), 1)
        self.assertIn("host includes quarry/quarry.hpp", found[0])

    def test_cuda_in_core_is_caught(self):
        self.assertEqual(
            len(self.planted({"include/quarry/core/a.hpp": "#include <cuda_runtime.h>\n"})), 1
        )

    def test_a_folder_that_is_not_a_layer_is_caught(self):
        self.assertEqual(len(self.planted({"include/quarry/utils/a.hpp": "#pragma once\n"})), 1)

    def test_an_allowed_include_passes(self):
        found = self.planted(
            {
                "include/quarry/device/a.hpp": "#include <quarry/simt/b.hpp>\n#include <vector>\n",
                "include/quarry/simt/b.hpp": "// #include <quarry/host/c.hpp>\n"
                "#include <quarry/core/d.hpp>\n",
                "src/trace/e.cpp": "#include <quarry/host/c.hpp>\n#include <thread>\n",
            }
        )
        self.assertEqual(found, [])


if __name__ == "__main__":
    unittest.main()
