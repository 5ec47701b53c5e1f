#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts the test cases of a run of ctest: cases of each gtest program, and ctest's other tests.

usage: count_tests.py JUNIT FOLDER [--list]
       count_tests.py --pytest JUNIT

JUNIT is the output of `ctest --output-junit`. FOLDER has the output of the gtest programs,
<name of the test in ctest>.xml. It must be empty before the run. Prints each failed test with its
message. The last line is `PASSED FAILED SKIPPED`. With --list, prints only the name of each case
that ran. With --pytest, JUNIT is the output of `pytest --junit-xml`.
"""

import sys
import xml.etree.ElementTree as ET
from pathlib import Path

MAX_LINES = 60  # the output shown of a program that ended without the results of its cases


def cases_of(path):
    """(name, outcome, message) of each case that ran in a gtest program; `path` is its output."""
    for suite in ET.parse(path).getroot():
        for case in suite:
            if case.get("status") == "notrun":
                continue  # another shard runs the case, or it is disabled
            name = f"{suite.get('name')}.{case.get('name')}"
            failures = [failure.get("message", "") for failure in case.iter("failure")]
            if failures:
                yield name, "failed", "\n".join(failures)
            elif case.get("result") == "skipped" or case.find("skipped") is not None:
                yield name, "skipped", ""
            else:
                yield name, "passed", ""


def outcomes(junit, folder):
    """(name, outcome, message) of each test case, and of each program that failed by itself."""
    for test in ET.parse(junit).getroot().iter("testcase"):
        name, status = test.get("name"), test.get("status")
        output = (test.findtext("system-out") or "").splitlines()
        report = folder / f"{name}.xml"
        if report.is_file():
            found = list(cases_of(report))
            for case, outcome, message in found:
                yield f"{name}: {case}", outcome, message
            if status == "fail" and not any(outcome == "failed" for _, outcome, _ in found):
                yield f"{name}: the program", "failed", "\n".join(output[-MAX_LINES:])
        elif status == "fail":
            yield name, "failed", "\n".join(output[-MAX_LINES:])
        else:
            yield name, "passed" if status == "run" else "skipped", ""


def outcomes_of_pytest(junit):
    """The same for a run of pytest."""
    for test in ET.parse(junit).getroot().iter("testcase"):
        name = f"{test.get('classname')}.{test.get('name')}"
        failures = [f.get("message", "") for f in test if f.tag in ("failure", "error")]
        outcome = "failed" if failures else "passed" if test.find("skipped") is None else "skipped"
        yield name, outcome, "\n".join(failures)


def main():
    if sys.argv[1] == "--pytest":
        found = list(outcomes_of_pytest(sys.argv[2]))
    else:
        found = list(outcomes(sys.argv[1], Path(sys.argv[2])))
    if "--list" in sys.argv[3:]:
        print("\n".join(sorted(name.split(": ")[-1] for name, _, _ in found)))
        return
    for name, outcome, message in found:
        if outcome == "failed":
            print(f"failed: {name}\n{message}\n")
    kinds = ("passed", "failed", "skipped")
    count = {kind: sum(outcome == kind for _, outcome, _ in found) for kind in kinds}
    print(count["passed"], count["failed"], count["skipped"])


if __name__ == "__main__":
    main()
