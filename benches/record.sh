#!/bin/sh
# Runs a benchmark on this machine, which should be quiet, and writes what it prints to benches/record/DATE-NAME.md, with the machine,
# its load and the commit:
#
#     benches/record.sh NAME [ARGUMENTS OF THE BENCHMARK..]
#
#     benches/record.sh autotune          what `auto` finds, against a sweep by hand, what it costs in short runs, and what verdicts
#                                         foretell: about eleven minutes a round
#     benches/record.sh autotune short    of that, the short runs: four minutes a round
#     benches/record.sh manners           what pinning, niceness, a share of the cores and SCHED_BATCH do for the trainer: five minutes
set -eu
cd "$(dirname "$0")/.."
name=${1:?names a benchmark: see benches/}
shift

load() {
    cut -d ' ' -f 1-3 /proc/loadavg 2>/dev/null || uptime
}

record=benches/record/$(date +%F)-$name.md
made=$(mktemp)
trap 'rm -f "$made"' EXIT
# Building is no load of the measurement.
cargo bench --quiet --no-run --bench "$name"
{
    echo "# $name"
    echo
    model=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo 2>/dev/null | head -n 1)
    echo "- Machine: ${model:-$(uname -m)}, $(getconf _NPROCESSORS_ONLN) cores, $(uname -sr)"
    echo "- Commit: $(git rev-parse --short HEAD)$(git diff --quiet HEAD || echo ', with changes')"
    echo "- Command: \`benches/record.sh $name${*:+ $*}\`"
    echo "- Load before: $(load)"
    echo
    echo '```text'
    cargo bench --quiet --bench "$name" -- "$@"
    echo '```'
    echo
    echo "Load after: $(load)"
} >"$made"
cp "$made" "$record"
echo "$record"
