#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the dependency graph of the packages that apt knows, as input for the graph examples.

    scripts/make_debian_graph.py [folder]

Runs on any Debian machine, after `apt-get update`. The default folder is `data`. An edge leads from
each package to each name in its Depends and Pre-Depends, including all alternatives, for any
version. A name without a package (a virtual package, or one that is not in the lists) is a vertex,
too. The same package lists give the same bytes, unless another version of zlib compresses them
differently.
"""

import argparse
import email.utils
import gzip
import hashlib
import os
import pathlib
import platform
import re
import subprocess
import zlib

SEED = 12
NO_VERTEX = 0xFFFFFFFF  # reserved by examples/graph/edge.hpp
RELATIONS = ("Depends", "Pre-Depends")


def output_of(*command: str) -> str:
    environment = {**os.environ, "LC_ALL": "C.UTF-8"}
    try:
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise SystemExit(
            f"make_debian_graph: cannot run {command[0]}; it needs apt: {error}"
        ) from error
    return done.stdout.decode()


def dependencies(packages: str) -> tuple[set[str], set[tuple[str, str]]]:
    """The packages of a list in Debian's control format, and (package, name) of each dependency."""
    known, pairs = set(), set()
    for stanza in re.split(r"\n\n+", packages.strip()):
        unfolded = re.sub(r"\n[ \t]+", " ", stanza)
        fields = dict(line.split(": ", 1) for line in unfolded.splitlines() if ": " in line)
        if "Package" not in fields:
            continue
        package = fields["Package"].strip()
        known.add(package)
        for relation in RELATIONS:
            for alternative in re.split(r"[,|]", fields.get(relation, "")):
                if name := re.match(r"\s*([A-Za-z0-9][A-Za-z0-9+.-]*)", alternative):
                    pairs.add((package, name[1]))
    return known, pairs


def sparse_ids(names: set[str]) -> dict[str, int]:
    """CRC-32 of each name. If names collide, the later name in order gets the next free number."""
    ids, used = {}, {NO_VERTEX}
    for name in sorted(names):
        number = zlib.crc32(name.encode())
        while number in used:
            number = (number + 1) & 0xFFFFFFFF
        used.add(number)
        ids[name] = number
    return ids


def shuffled(edges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Sorted by a keyed hash: every Python has the same order, which `random` does not promise."""
    key = SEED.to_bytes(8, "little")

    def rank(edge: tuple[int, int]) -> bytes:
        return hashlib.blake2b(b"%d %d" % edge, key=key, digest_size=16).digest()

    return sorted(edges, key=rank)


def provenance() -> tuple[str, str]:
    """The releases whose packages apt knows, and the date of the newest release."""
    releases = set()
    for line in re.findall(r"^ +release (.*)$", output_of("apt-cache", "policy"), re.MULTILINE):
        release = dict(item.split("=", 1) for item in line.split(",") if "=" in item)
        parts = [release[key] for key in "nvcb" if key in release]
        if release.get("a") != "now":  # `now` stands for the installed packages, not for a release
            releases.add(" ".join(parts))
    folder = output_of("apt-config", "shell", "lists", "Dir::State::lists/d").strip()
    dates = [
        email.utils.parsedate_to_datetime(date)
        for path in pathlib.Path(folder.removeprefix("lists='").removesuffix("'")).glob("*Release")
        for date in re.findall(r"^Date: (.*)$", path.read_text(errors="replace"), re.MULTILINE)
    ]
    return "; ".join(sorted(releases)), max(dates).date().isoformat() if dates else "no known date"


def write(path: pathlib.Path, lines: list[str]) -> None:
    with path.open("wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as packed:
        packed.write("".join(line + "\n" for line in lines).encode())
    print(f"{path}: {path.stat().st_size} bytes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=pathlib.Path, default=pathlib.Path("data"))
    folder = parser.parse_args().folder

    known, pairs = dependencies(output_of("apt-cache", "dumpavail"))
    if not pairs:
        raise SystemExit("make_debian_graph: apt knows no packages; run `apt-get update` first")
    names = {name for pair in pairs for name in pair}
    ids = sparse_ids(names)
    edges = shuffled([(ids[source], ids[target]) for source, target in pairs])
    releases, date = provenance()

    system = platform.freedesktop_os_release()
    stem = f"{system['ID']}-{system['VERSION_ID']}-depends"
    counts = f"{len(names)} vertices, {len(edges)} edges"
    origin = f"# apt's package lists of {date}: {releases}"
    write(
        folder / f"{stem}.el.gz",
        [
            f"# Package dependencies of {system['PRETTY_NAME']}: {counts}",
            origin,
            f"# of {len(known)} packages, {len(known - names)} have no edge and are left out;",
            f"# {len(names - known)} vertices are virtual packages or not in the lists",
            f"# source depends on target ({', '.join(RELATIONS)}; every alternative)",
            f"# id: CRC-32 of the name, see {stem}.names.gz; order: shuffled, seed {SEED}",
            "# made by scripts/make_debian_graph.py",
            *(f"{source} {target}" for source, target in edges),
        ],
    )
    write(
        folder / f"{stem}.names.gz",
        [
            f"# The vertices of {stem}.el.gz: id, name",
            origin,
            *(f"{ids[name]} {name}" for name in sorted(names)),
        ],
    )
    print(counts)


if __name__ == "__main__":
    main()
