#!/bin/sh
# Sets up, builds and runs all tests. Last line: `N passed, N failed, N skipped`.
set -eu

usage() {
  cat <<'TEXT'
usage: sh tests/run.sh [--preset NAME] [--no-asan] [--no-setup]

Installs what is missing, builds preset release and runs every test, then builds the libraries without LibTorch with address and
undefined-behaviour sanitizers and runs their cases again. Safe to run again: only what changed is rebuilt.
  --preset NAME  release (default), dev, cpu, headless
  --no-asan      leave out the sanitizer build
  --no-setup     install nothing
  --help         this text
Exit code 0 when nothing failed. Tests that need a GPU are skipped, and counted as skipped, where there is none.
TEXT
}

preset=release
asan=yes
setup=yes
while [ $# -gt 0 ]; do
  case "$1" in
    --preset) preset=${2:?--preset needs a name}; shift ;;
    --no-asan) asan=no ;;
    --no-setup) setup=no ;;
    --help|-h) usage; exit 0 ;;
    *) echo "run.sh: unknown option $1" >&2; usage >&2; exit 2 ;;
  esac
  shift
done

cd "$(dirname "$0")/.."
if [ "$setup" = yes ]; then
  if [ "$preset" = headless ]; then sh resources/dependencies.sh --tests --headless; else sh resources/dependencies.sh --tests; fi
fi

log=build/test-logs
mkdir -p "$log"
rm -f "$log"/ctest-*.txt
failed_steps=0

build() {  # preset
  cmake --preset "$1" >"$log/configure-$1.txt" 2>&1 || { cat "$log/configure-$1.txt"; return 1; }
  cmake --build --preset "$1" >"$log/build-$1.txt" 2>&1 || { tail -n 60 "$log/build-$1.txt"; return 1; }
}

# Runs a preset's tests; every test program prints `slotscope-totals: N passed, N failed, N skipped` or Qt Test's totals.
run() {  # preset
  echo "== tests of preset $1"
  build "$1" || { echo "preset $1 did not build"; failed_steps=$((failed_steps + 1)); return; }
  QT_QPA_PLATFORM=offscreen ctest --preset "$1" --verbose -j 2 >"$log/ctest-$1.txt" 2>&1 || true
  grep -E '^ *[0-9]+/[0-9]+ Test' "$log/ctest-$1.txt" || true
  # What failed, in enough detail to act on.
  grep -E '^[0-9]+: (FAIL|FAIL!|QFATAL|.*(Sanitizer|runtime error))' "$log/ctest-$1.txt" | head -n 80 || true
}

run "$preset"
[ "$asan" = no ] || run asan

# shellcheck disable=SC2046
awk -v steps="$failed_steps" -f tests/totals.awk $(ls "$log/ctest-$preset.txt" $([ "$asan" = no ] || echo "$log/ctest-asan.txt") 2>/dev/null)
