# SPDX-License-Identifier: Apache-2.0
"""Errors in the command line itself: with --json they are an object, too."""

import sys
from collections.abc import Sequence
from typing import Any

from typer.core import TyperGroup

from quarry.command_line.output import print_json


class CommandGroup(TyperGroup):
    """The commands. Typer finds unknown options and bad values before a command runs.

    Without --json, Typer shows these errors with the usage. With --json, they are printed in the
    form of other errors.
    """

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        common = (prog_name, complete_var)
        words = list(sys.argv[1:] if args is None else args)
        if not standalone_mode or "--json" not in words:
            return super().main(args, *common, standalone_mode, windows_expand_args, **extra)
        try:
            status = super().main(words, *common, False, windows_expand_args, **extra)
        except Exception as failed:
            # The class is Click's or that of Typer's copy of Click: this depends on the version.
            if not hasattr(failed, "format_message"):
                raise
            print_json({"error": failed.format_message(), "type": type(failed).__name__})
            status = getattr(failed, "exit_code", 2)
        sys.exit(status or 0)
