# SPDX-License-Identifier: Apache-2.0
"""Parts of the command line: options that commands share, output, and commands with much text."""
