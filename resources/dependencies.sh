#!/bin/sh
# Installs what building and running Slotscope needs and is missing. Safe to run again; does nothing when all is there.
#   sh resources/dependencies.sh [--headless] [--tests] [--help]
set -eu

usage() {
  cat <<'TEXT'
usage: sh resources/dependencies.sh [--headless] [--tests]

Installs missing system packages (apt-get; Debian 12, Ubuntu 24.04) and fetches the pinned LibTorch wheel into a cache that all
clones share.
  --headless   without Qt and QCustomPlot (slotscope-cli only)
  --tests      also what only the tests use (h5py, poppler-utils)
  --help       this text
Environment:
  SLOTSCOPE_CACHE     where LibTorch goes (default: $XDG_CACHE_HOME/slotscope or ~/.cache/slotscope)
  SLOTSCOPE_LIBTORCH  a folder with torch/include and torch/lib that is there already: nothing is fetched
TEXT
}

headless=no
tests=no
for argument in "$@"; do
  case "$argument" in
    --headless) headless=yes ;;
    --tests) tests=yes ;;
    --help|-h) usage; exit 0 ;;
    *) echo "dependencies.sh: unknown option $argument" >&2; usage >&2; exit 2 ;;
  esac
done

torch_version=2.11.0
cache=${SLOTSCOPE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/slotscope}

# --- system packages -------------------------------------------------------------------------------------------------
packages="g++ cmake ninja-build ccache mold pkg-config python3 python3-pip util-linux libhdf5-dev nlohmann-json3-dev libcli11-dev
  zlib1g-dev libicu-dev libsentencepiece-dev"
if [ "$headless" = no ]; then
  packages="$packages qt6-base-dev qt6-svg-dev libqcustomplot-dev libgl-dev fonts-dejavu-core"
  # QCustomPlot's Qt 6 package brings its CMake file for Qt 6 only; the image plugins are part of qt6-base and qt6-svg.
fi
if [ "$tests" = yes ]; then
  packages="$packages python3-h5py poppler-utils"
fi

missing=
for package in $packages; do
  dpkg-query -W -f='${Status}\n' "$package" 2>/dev/null | grep -q '^install ok installed' || missing="$missing $package"
done
if [ -n "$missing" ]; then
  echo "installing:$missing"
  root=
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null 2>&1 || { echo "dependencies.sh: these packages are missing and need root to install:$missing" >&2; exit 1; }
    root=sudo
  fi
  command -v apt-get >/dev/null 2>&1 || { echo "dependencies.sh: no apt-get here; install the equivalents of:$missing" >&2; exit 1; }
  $root apt-get update -qq
  # shellcheck disable=SC2086
  DEBIAN_FRONTEND=noninteractive $root apt-get install -y -qq --no-install-recommends $missing >/dev/null
fi

# --- LibTorch --------------------------------------------------------------------------------------------------------
if [ -n "${SLOTSCOPE_LIBTORCH:-}" ]; then
  echo "LibTorch: $SLOTSCOPE_LIBTORCH"
  exit 0
fi
target="$cache/libtorch-$torch_version"
if [ ! -f "$target/torch/lib/libtorch_cpu.so" ]; then
  mkdir -p "$cache"
  (
    flock 9  # two clones must not fetch at once
    if [ ! -f "$target/torch/lib/libtorch_cpu.so" ]; then
      free_kb=$(df -Pk "$cache" | awk 'NR == 2 { print $4 }')
      if [ "$free_kb" -lt 12582912 ]; then
        echo "dependencies.sh: LibTorch needs 12 GB free in $cache while it is fetched, found $((free_kb / 1048576)) GB." \
          "Set SLOTSCOPE_CACHE to a larger disk." >&2
        exit 1
      fi
      echo "fetching LibTorch $torch_version (about 3 GB) into $cache"
      rm -rf "$target.tmp" "$target"
      # The system's python3, so that the wheel does not depend on which other Python happens to be first on PATH.
      python=/usr/bin/python3
      [ -x "$python" ] || python=python3
      "$python" -m pip install --quiet --no-cache-dir --target "$target.tmp" "torch==$torch_version"
      rm -rf "$target.tmp/triton" "$target.tmp"/triton-*
      mv "$target.tmp" "$target"
    fi
  ) 9>"$cache/lock"
fi
echo "LibTorch: $target"
