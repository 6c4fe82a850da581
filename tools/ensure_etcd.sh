#!/usr/bin/env bash
# Finds etcd 3.4 or newer (ETCD, PATH, .cache, Debian's package) and prints its path; see unpacked_program.sh.
set -euo pipefail
. "$(dirname "$0")/unpacked_program.sh"

good() { # whether the given program is an etcd that will do
  [ -x "$1" ] || return 1
  local version
  version=$("$1" --version 2>/dev/null | sed -n 's/^etcd Version: \([0-9]*\)\.\([0-9]*\).*/\1 \2/p')
  set -- $version
  [ $# -eq 2 ] && { [ "$1" -gt 3 ] || { [ "$1" -eq 3 ] && [ "$2" -ge 4 ]; }; }
}

ensure "${ETCD:-}" etcd etcd-server "etcd 3.4 or newer"
