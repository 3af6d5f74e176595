#!/bin/sh
# Sets up, builds and opens Slotscope on the bundled checkpoint; with no display it makes the same run's trace and figures in out/.
set -eu

usage() {
  cat <<'TEXT'
usage: sh app/run.sh [--headless] [--no-setup] [--preset NAME] [--] [FOLDER|TRACE.h5 ...]

Installs what is missing, builds preset release and opens the window: the bundled checkpoint with its password prompt already
run, or what is named after the options. Safe to run again: only what changed is rebuilt.

With no display (neither DISPLAY nor WAYLAND_DISPLAY is set) or with --headless it does the same job without a window: it runs
the password prompt and leaves the trace and its figures in out/. Files of an earlier run there are replaced, nothing else in
the folder is touched.

  --headless     no window, even where there is a display
  --no-setup     install nothing
  --preset NAME  release (default), dev, cpu
  --help         this text
TEXT
}

headless=no
setup=yes
preset=release
while [ $# -gt 0 ]; do
  case "$1" in
    --headless) headless=yes ;;
    --no-setup) setup=no ;;
    --preset) preset=${2:?--preset needs a name}; shift ;;
    --help|-h) usage; exit 0 ;;
    --) shift; break ;;
    -*) echo "run.sh: unknown option $1" >&2; usage >&2; exit 2 ;;
    *) break ;;
  esac
  shift
done
# Names of files are relative to where the user is, everything else to the source tree.
here=$(pwd)
count=$#
while [ "$count" -gt 0 ]; do
  case "$1" in /*) path=$1 ;; *) path=$here/$1 ;; esac
  shift
  set -- "$@" "$path"
  count=$((count - 1))
done
cd "$(dirname "$0")/.."
if [ -z "${DISPLAY:-}" ] && [ -z "${WAYLAND_DISPLAY:-}" ]; then headless=yes; fi

if [ "$setup" = yes ]; then sh resources/dependencies.sh; fi

log=build/run-build.log
mkdir -p build
echo "building preset $preset (log: $log)"
{ cmake --preset "$preset" && cmake --build "build/$preset" --target slotscope slotscope-cli; } >"$log" 2>&1 || {
  tail -n 40 "$log" >&2
  echo "run.sh: the build failed; the whole log is in $log" >&2
  exit 1
}
bin=build/$preset/bin

if [ "$headless" = no ]; then
  exec "$bin/slotscope" "$@"
fi

if [ $# -gt 0 ]; then
  echo "run.sh: without a display, files are opened by slotscope-cli (see $bin/slotscope-cli --help) and slotscope figure" >&2
  exit 2
fi
mkdir -p out
"$bin/slotscope-cli" run resources/checkpoints/raven-passkey --task passkey --length 512 --depth 0.3 --seed 9 \
  --out out/password.h5 --force
for kind in heatmap esl esl-grid allocation; do
  for format in png pdf; do
    "$bin/slotscope" figure out/password.h5 --kind "$kind" --out "out/$kind.$format" --force
  done
done
echo "There is no display here, so no window was opened. Left in $(pwd)/out:"
echo "  password.h5                       the trace (slotscope-cli analyze out/password.h5)"
echo "  heatmap, esl, esl-grid, allocation  the window's figures, each as .png and .pdf"
