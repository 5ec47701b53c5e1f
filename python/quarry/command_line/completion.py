# SPDX-License-Identifier: Apache-2.0
"""Completion of commands and options in a shell. The user names the shell.

Typer's own options guess the shell from the parent process, which fails under other programs.
"""

import enum
from typing import Annotated

import typer
from typer.completion import completion_init, install_callback, show_callback

completion_init()


class Shell(str, enum.Enum):
    """The shells that Typer has a script for."""

    bash = "bash"
    zsh = "zsh"
    fish = "fish"
    powershell = "powershell"


InstallCompletion = Annotated[
    Shell | None,
    typer.Option(
        "--install-completion",
        callback=install_callback,
        is_eager=True,
        help="Teach this shell to complete commands and options.",
    ),
]
ShowCompletion = Annotated[
    Shell | None,
    typer.Option(
        "--show-completion",
        callback=show_callback,
        is_eager=True,
        help="Print the script that teaches this shell to complete commands and options.",
    ),
]
