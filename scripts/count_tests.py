#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sums up what a run of ctest did, by test case: those of each gtest program, and each other test of ctest.

usage: count_tests.py JUNIT FOLDER [--list]

JUNIT is what `ctest --output-junit` wrote. FOLDER holds what the gtest programs wrote, <name of the test in ctest>.xml; it was
empty before the run. Prints what failed, with its message. The last line is `PASSED FAILED SKIPPED`. With --list, prints the name of
each case that ran, and nothing else.
"""

import sys
import xml.etree.ElementTree as ET
from pathlib import Path

MOST_LINES = 60  # of what a program printed that ended without saying what became of its cases


def cases_of(path):
    """(name, outcome, message) of each case that ran in this gtest program."""
    for suite in ET.parse(path).getroot():
        for case in suite:
            if case.get("status") == "notrun":
                continue  # another part runs it, or it is disabled
            name = f"{suite.get('name')}.{case.get('name')}"
            failures = [failure.get("message", "") for failure in case.iter("failure")]
            if failures:
                yield name, "failed", "\n".join(failures)
            elif case.get("result") == "skipped" or case.find("skipped") is not None:
                yield name, "skipped", ""
            else:
                yield name, "passed", ""


def outcomes(junit, folder):
    """(name, outcome, message) of each test case, and of each program that failed beside them."""
    for test in ET.parse(junit).getroot().iter("testcase"):
        name, status = test.get("name"), test.get("status")
        output = (test.findtext("system-out") or "").splitlines()
        told = folder / f"{name}.xml"
        if told.is_file():
            found = list(cases_of(told))
            for case, outcome, message in found:
                yield f"{name}: {case}", outcome, message
            if status == "fail" and not any(outcome == "failed" for _, outcome, _ in found):
                yield f"{name}: the program", "failed", "\n".join(output[-MOST_LINES:])
        elif status == "fail":
            yield name, "failed", "\n".join(output[-MOST_LINES:])
        else:
            yield name, "passed" if status == "run" else "skipped", ""


def main():
    found = list(outcomes(sys.argv[1], Path(sys.argv[2])))
    if "--list" in sys.argv[3:]:
        print("\n".join(sorted(name.split(": ")[-1] for name, _, _ in found)))
        return
    for name, outcome, message in found:
        if outcome == "failed":
            print(f"failed: {name}\n{message}\n")
    count = {kind: sum(outcome == kind for _, outcome, _ in found) for kind in ("passed", "failed", "skipped")}
    print(count["passed"], count["failed"], count["skipped"])


if __name__ == "__main__":
    main()
