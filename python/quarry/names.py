# SPDX-License-Identifier: Apache-2.0
"""Names of files that are not UTF-8. Python has surrogates in the place of their bytes."""

import re
import shlex


def printable(text: str) -> str:
    """The text with `\\xNN` in the place of such a byte, as in the messages of the library."""
    return re.sub("[\udc80-\udcff]", lambda found: f"\\x{ord(found[0]) - 0xDC00:02x}", text)


def quoted(text: str) -> str:
    """The text as a word for Bash. Names that are not UTF-8 need Bash's `$'...'`."""
    if printable(text) == text:
        return shlex.quote(text)
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"$'{printable(escaped)}'"
