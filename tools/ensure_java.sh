#!/usr/bin/env bash
# Finds Java 17 or newer and prints its home; everything said to people goes to stderr.
#   ensure_java.sh jre          a runtime, for Spark
#   ensure_java.sh jdk-maven    a JDK and Maven, for the tests against the real RocketMQ
# Order: JAVA_HOME, then PATH, then the distribution's package where apt-get is there with the rights to use it.
# Otherwise it stops with the one command to run.
set -euo pipefail
want=${1:-jre}
say() { echo "bolide: $*" >&2; }

major() { # major version of the given java, or 0
  local text
  text=$("$1" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -n 1) || true
  echo "${text:-0}"
}

good_home() { # prints the home if the given java will do
  local java=$1 home
  [ -x "$java" ] && [ "$(major "$java")" -ge 17 ] || return 1
  home=$(dirname "$(dirname "$(readlink -f "$java" 2>/dev/null || echo "$java")")")
  if [ "$want" = jdk-maven ] && [ ! -x "$home/bin/javac" ]; then return 1; fi
  echo "$home"
}

find_home() {
  if [ -n "${JAVA_HOME:-}" ] && good_home "$JAVA_HOME/bin/java"; then return 0; fi
  local java
  for java in $(type -aP java || true) /usr/lib/jvm/*/bin/java; do
    if good_home "$java"; then return 0; fi
  done
  return 1
}

missing=()
if ! home=$(find_home); then
  home=
  if [ "$want" = jre ]; then missing+=(default-jre-headless); else missing+=(default-jdk-headless); fi
fi
if [ "$want" = jdk-maven ] && ! command -v mvn >/dev/null; then missing+=(maven); fi

if [ ${#missing[@]} -gt 0 ]; then
  if command -v apt-get >/dev/null; then
    sudo=()
    if [ "$(id -u)" -ne 0 ]; then
      if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
        sudo=(sudo -n)
      else
        say "needs ${missing[*]}; run: sudo apt-get install -y --no-install-recommends ${missing[*]}"
        exit 1
      fi
    fi
    say "Java 17 or newer is missing here: installing the package ${missing[*]}"
    { "${sudo[@]}" apt-get update -q && "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive \
      apt-get install -y -q --no-install-recommends "${missing[@]}"; } >&2
    if ! home=$(find_home); then
      say "the package ${missing[*]} brought no Java 17 or newer; install one and set JAVA_HOME to it"
      exit 1
    fi
  elif [ "$(uname)" = Darwin ]; then
    say "Java 17 or newer is missing; run: brew install openjdk@17${missing[1]:+ maven} && export JAVA_HOME=\$(brew --prefix openjdk@17)"
    exit 1
  else
    say "Java 17 or newer is missing (${missing[*]}); install one with your package manager and set JAVA_HOME to it"
    exit 1
  fi
fi
echo "$home"
