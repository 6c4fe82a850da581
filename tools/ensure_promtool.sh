#!/usr/bin/env bash
# Finds promtool, which tests the alert rules (PROMTOOL, PATH, .cache, Debian's package), and prints its path; see
# unpacked_program.sh.
set -euo pipefail
. "$(dirname "$0")/unpacked_program.sh"

good() { [ -x "$1" ] && "$1" --version >/dev/null 2>&1; }

ensure "${PROMTOOL:-}" promtool prometheus promtool
