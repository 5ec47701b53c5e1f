# SPDX-License-Identifier: Apache-2.0
"""Compiles and runs MPI programs, with Quarry and with another MPI. For tests and scripts."""

import os
import shutil
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

# Open MPI refuses to run as root, and more ranks than cores, without these.
OPEN_MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1",
}


@dataclass
class Outcome:
    """What a program did. `status` is what a shell reports; it is None after a timeout."""

    status: int | None
    out: str
    err: str

    def lines(self):
        return sorted(self.out.splitlines())

    def describe(self):
        ended = "did not end in time" if self.status is None else f"status {self.status}"
        return f"{ended}\nstdout:\n{self.out[-3000:]}\nstderr:\n{self.err[-3000:]}"


def run(command, seconds, folder=None, text="", environment=None):
    """Runs the command, and kills it and its children after the given time."""
    process = subprocess.Popen(
        [str(word) for word in command],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
        env={**os.environ, **OPEN_MPI, **(environment or {})},
    )
    try:
        out, err = process.communicate(text, timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        return Outcome(None, out, err)
    code = process.returncode
    return Outcome(code if code >= 0 else 128 - code, out, err)


@dataclass
class Toolchain:
    """A compiler for MPI programs, and the command that starts their ranks."""

    compiler: Path
    launcher: Path
    options: tuple = ()

    def compile(self, sources, program, options=(), seconds=120, folder=None):
        libraries = [word for word in options if str(word).startswith("-l")]
        others = [word for word in options if word not in libraries]
        command = [self.compiler, *others, *sources, "-o", program, *libraries]
        return run(command, seconds, folder)

    def run(self, program, ranks, arguments=(), seconds=60, options=(), folder=None, text=""):
        command = [self.launcher, *self.options, *options, "-n", ranks, program, *arguments]
        return run(command, seconds, folder, text)


def quarry(folder):
    """The compiler and the launcher in a folder; without a folder, those in the path."""
    tools = [shutil.which(name, path=folder) for name in ("quarry-mpicc", "quarry-mpirun")]
    if None in tools:
        raise FileNotFoundError(f"no quarry-mpicc and quarry-mpirun in {folder or 'PATH'}")
    return Toolchain(*(Path(tool).resolve() for tool in tools))


def other_mpi():
    """Open MPI, or another MPI in the path, or None."""
    for suffix in (".openmpi", ""):
        tools = [shutil.which(name + suffix) for name in ("mpicc", "mpirun")]
        if None not in tools:
            return Toolchain(*map(Path, tools))  # their names choose what they do: links stay
    return None
