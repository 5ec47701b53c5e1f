#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tunes a pool on a recorded trace, and writes a report.
# usage: scripts/demo_trace.sh TRACE
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

trace=$1 report=build/demo/$(basename "$1").html
scripts/build_python.sh
mkdir -p build/demo
quarry=build/python/venv/bin/quarry
step "tuning a pool on $trace"
"$quarry" tune "$trace"
"$quarry" report "$trace" --tune -o "$report"
step "a report of the trace: $report"
