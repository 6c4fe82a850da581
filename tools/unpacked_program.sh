# Sourced by the scripts that find one program, each with its own `good`.
# Prints the path of the program; everything said to people goes to stderr.
root=$(cd "$(dirname "$0")/.." && pwd)
say() { echo "bolide: $*" >&2; }

# ensure GIVEN PROGRAM PACKAGE NEEDED: the given path, then PATH, then the copy under .cache, then Debian's package,
# unpacked there and not installed. Otherwise it stops with the one command to run.
ensure() {
  local given=$1 program=$2 package=$3 needed=$4 found
  local copy=${BOLIDE_CACHE:-$root/.cache}/$package/usr/bin/$program
  for found in "$given" "$(command -v "$program" || true)" "$copy"; do
    if [ -n "$found" ] && good "$found"; then echo "$found"; return; fi
  done
  if command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null; then
    say "$program is missing here: unpacking it from the package $package"
    mkdir -p "${copy%/*}"
    work=$(mktemp -d "${copy%/*}/work.XXXXXX") # not local: the trap runs outside this function, also after a signal
    trap 'rm -rf "$work"' EXIT
    (cd "$work" && apt-get download -q "$package" && dpkg-deb -x "$package"_*.deb unpacked) >&2 &&
      mv -f "$work/unpacked/usr/bin/$program" "$copy"
    if good "$copy"; then echo "$copy"; return; fi
  fi
  say "$needed is missing; run: sudo apt-get install -y --no-install-recommends $package"
  return 1
}
