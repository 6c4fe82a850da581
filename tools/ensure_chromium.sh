#!/usr/bin/env bash
# Finds Chromium and its driver and prints the paths of both, a line each; everything said to people goes to stderr.
# Order: CHROMIUM and CHROMEDRIVER, then PATH, then Debian's packages where apt-get is there with the rights to use it.
# Otherwise it stops with the one command to run.
set -euo pipefail
say() { echo "bolide: $*" >&2; }

find_both() { # prints the browser and the driver if both are there
  local browser driver
  browser=${CHROMIUM:-$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)}
  driver=${CHROMEDRIVER:-$(command -v chromedriver || true)}
  [ -x "$browser" ] && [ -x "$driver" ] || return 1
  printf '%s\n%s\n' "$browser" "$driver"
}

packages=(chromium chromium-driver fonts-dejavu-core)
if find_both; then exit 0; fi
if command -v apt-get >/dev/null; then
  sudo=()
  if [ "$(id -u)" -ne 0 ]; then
    if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
      sudo=(sudo -n)
    else
      say "Chromium is missing; run: sudo apt-get install -y --no-install-recommends ${packages[*]}"
      exit 1
    fi
  fi
  say "Chromium is missing here: installing the packages ${packages[*]}"
  { "${sudo[@]}" apt-get update -q && "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -q --no-install-recommends "${packages[@]}"; } >&2
  if find_both; then exit 0; fi
fi
say "Chromium and chromedriver are missing: install both, or set CHROMIUM and CHROMEDRIVER to them"
exit 1
