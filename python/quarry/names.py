# SPDX-License-Identifier: Apache-2.0
"""Names of files that are not UTF-8. Python has surrogates in the place of their bytes."""

import re


def printable(text: str) -> str:
    """The text with `\\xNN` in the place of such a byte, as in the messages of the library."""
    return re.sub("[\udc80-\udcff]", lambda found: f"\\x{ord(found[0]) - 0xDC00:02x}", text)
