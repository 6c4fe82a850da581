#!/usr/bin/env bash
# Finds promtool, which tests the alert rules, and prints the path of its program; everything said to people goes to stderr.
# Order: PROMTOOL, then PATH, then the copy under .cache, then Debian's package prometheus, unpacked there (not installed).
# Otherwise it stops with the one command to run.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
cache=${BOLIDE_CACHE:-$root/.cache}/prometheus
say() { echo "bolide: $*" >&2; }

good() { [ -x "$1" ] && "$1" --version >/dev/null 2>&1; }

for found in "${PROMTOOL:-}" "$(command -v promtool || true)" "$cache/usr/bin/promtool"; do
  if [ -n "$found" ] && good "$found"; then echo "$found"; exit 0; fi
done
if command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null; then
  say "promtool is missing here: unpacking it from the package prometheus under $cache"
  mkdir -p "$cache"
  work=$(mktemp -d "$cache/work.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  (cd "$work" && apt-get download -q prometheus && dpkg-deb -x prometheus_*.deb unpacked) >&2
  mkdir -p "$cache/usr/bin"
  mv -f "$work/unpacked/usr/bin/promtool" "$cache/usr/bin/promtool"
  if good "$cache/usr/bin/promtool"; then echo "$cache/usr/bin/promtool"; exit 0; fi
fi
say "promtool is missing; run: sudo apt-get install -y --no-install-recommends prometheus"
exit 1
