#!/usr/bin/env bash
# Finds etcd 3.4 or newer and prints the path of its program; everything said to people goes to stderr.
# Order: ETCD, then PATH, then the copy under .cache, then Debian's package etcd-server, unpacked there (not installed).
# Otherwise it stops with the one command to run.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
cache=${BOLIDE_CACHE:-$root/.cache}/etcd
say() { echo "bolide: $*" >&2; }

good() { # whether the given program is an etcd that will do
  [ -x "$1" ] || return 1
  local version
  version=$("$1" --version 2>/dev/null | sed -n 's/^etcd Version: \([0-9]*\)\.\([0-9]*\).*/\1 \2/p')
  set -- $version
  [ $# -eq 2 ] && { [ "$1" -gt 3 ] || { [ "$1" -eq 3 ] && [ "$2" -ge 4 ]; }; }
}

for found in "${ETCD:-}" "$(command -v etcd || true)" "$cache/usr/bin/etcd"; do
  if [ -n "$found" ] && good "$found"; then echo "$found"; exit 0; fi
done
if command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null; then
  say "etcd is missing here: unpacking the package etcd-server under $cache"
  mkdir -p "$cache"
  work=$(mktemp -d "$cache/work.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  (cd "$work" && apt-get download -q etcd-server && dpkg-deb -x etcd-server_*.deb unpacked) >&2
  mkdir -p "$cache/usr/bin"
  mv -f "$work/unpacked/usr/bin/etcd" "$cache/usr/bin/etcd"
  if good "$cache/usr/bin/etcd"; then echo "$cache/usr/bin/etcd"; exit 0; fi
fi
say "etcd 3.4 or newer is missing; run: sudo apt-get install -y --no-install-recommends etcd-server"
exit 1
