#!/bin/sh
# Runs the fuzz targets, a summary line for each. Exit code 1 when one of them found something.
set -eu

usage() {
  cat <<'TEXT'
usage: sh tests/fuzz/run.sh [--seconds N] [--timeout N] [--jobs N] [--work DIR] [--programs DIR] [TARGET...]

Runs each target (all but trace_plain when none is named; its README says why) at the lowest priority from its stored corpus and dictionary. Build first:
cmake --preset fuzz && cmake --build --preset fuzz
  --seconds N     time for each target (default 60)
  --timeout N     for one input, by the clock on the wall (default 10, 60 for the traces; more on a busy machine)
  --jobs N        targets at the same time (default: number of cores)
  --work DIR      logs, grown corpora and findings (default build/fuzz/work); what has grown there is used again
  --programs DIR  where fuzz_<target> are (default build/fuzz/bin)
TEXT
}

cd "$(dirname "$0")/../.."
seconds=60 timeout= jobs=$(nproc) work=build/fuzz/work programs=build/fuzz/bin one=no
while [ $# -gt 0 ]; do
  case "$1" in
    --seconds) seconds=${2:?--seconds needs a number}; shift ;;
    --timeout) timeout=${2:?--timeout needs a number}; shift ;;
    --jobs) jobs=${2:?--jobs needs a number}; shift ;;
    --work) work=${2:?--work needs a folder}; shift ;;
    --programs) programs=${2:?--programs needs a folder}; shift ;;
    --one) one=yes ;;  # for xargs below
    --help|-h) usage; exit 0 ;;
    -*) echo "run.sh: unknown option $1" >&2; usage >&2; exit 2 ;;
    *) break ;;
  esac
  shift
done

longest() {  # of an input, in bytes
  case "$1" in
    trace) echo 512 ;;
    trace_bytes|trace_plain) echo 256 ;;
    *) echo 8192 ;;
  esac
}

# HDF5 keeps freed blocks in lists of its own. libFuzzer takes that for a leak and looks for one after every input, which takes a hundred
# times as long as the input; the search at the end of the program stays. In damaged files HDF5 asks malloc for absurd sizes, which fail.
# Time limits are wall clock: the slow targets get more, so that a busy machine is no finding.
options_of() {
  case "$1" in
    trace) echo '-detect_leaks=0 -timeout=60' ;;
    trace_bytes|trace_plain) echo '-detect_leaks=0 -timeout=60 -malloc_limit_mb=1000000' ;;
  esac
}

stat_of() {  # name of a number at the end of the log
  sed -n "s/^stat::$1: *//p" "$log" | tail -n 1
}

if [ "$one" = yes ]; then
  target=$1
  log=$work/$target.log
  mkdir -p "$work/corpus/$target" "$work/findings"
  TMPDIR=$(mktemp -d -p "$( [ -w /dev/shm ] && echo /dev/shm || echo /tmp )" slotscope-fuzz-XXXXXX)
  export TMPDIR
  trap 'rm -rf "$TMPDIR"' EXIT
  dictionary=tests/fuzz/dictionaries/$target.dict
  [ -f "$dictionary" ] && set -- "-dict=$dictionary" || set --
  begin=$(date +%s)
  status=0
  nice -n 19 "$programs/fuzz_$target" "$@" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 \
    -max_len="$(longest "$target")" $(options_of "$target") ${timeout:+-timeout="$timeout"} -print_final_stats=1 -artifact_prefix="$work/findings/$target-" \
    "$work/corpus/$target" "tests/fuzz/corpus/$target" >"$log" 2>&1 || status=$?
  edges=$(grep -o 'cov: [0-9]*' "$log" | tail -n 1 | cut -c6-)
  verdict='no finding'
  case $status in
    0) ;;
    72) verdict='stopped by hand, no finding' ;;
    *) verdict="FINDING (exit $status): see $log" ;;
  esac
  printf '%-12s %12s executions %6s s %6s edges   %s\n' "$target" "$(stat_of number_of_executed_units)" \
    "$(($(date +%s) - begin))" "$edges" "$verdict"
  [ $status -eq 0 ] || [ $status -eq 72 ]
  exit
fi

if [ $# -eq 0 ]; then
  set -- $(ls "$programs" | sed -n 's/^fuzz_//p' | grep -v '^trace_plain$')
  [ $# -gt 0 ] || { echo "run.sh: no fuzz targets in $programs: build preset fuzz first" >&2; exit 2; }
fi
printf '%s\n' "$@" | xargs -P "$jobs" -I '{}' \
  sh tests/fuzz/run.sh --one --seconds "$seconds" ${timeout:+--timeout "$timeout"} --work "$work" --programs "$programs" '{}' || exit 1
