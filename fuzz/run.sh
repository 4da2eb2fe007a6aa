#!/usr/bin/env bash
# Fuzzes every format, one after another, and prints what each run did.
#
#     fuzz/run.sh [MINUTES [TARGET]...]     # 60 minutes each of all targets without arguments
#     fuzz/run.sh --list                    # the targets
#
# Runs on the stable compiler and needs a C++ compiler, for libFuzzer. Inputs that reach something new are kept in
# `target/fuzz/corpus`, and are where the next run begins; an input that ends a run is kept in `target/fuzz/found`.
# `FUZZ_TARGET=name program file` reads one again.
set -euo pipefail
cd "$(dirname "$0")/.."

triple=$(rustc -vV | sed -n 's/^host: //p')
# What `cargo fuzz` asks of the compiler but for sanitizers, which are no part of the stable one. With a target of its own,
# build scripts and macros stay as they are.
coverage="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4"
coverage+=" -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table"
coverage+=" -Cllvm-args=-sanitizer-coverage-trace-compares -Cdebug-assertions -Coverflow-checks"
RUSTFLAGS="$coverage" CARGO_INCREMENTAL=0 cargo build --quiet --profile "${FUZZ_PROFILE:-release}" -p ringfeed-fuzz \
    --features tokenizers --target "$triple" --target-dir target/fuzz
program="$PWD/target/fuzz/$triple/${FUZZ_PROFILE:-release}/fuzz"

if [ "${1:-}" = --list ]; then
    exec "$program"
fi
minutes=${1:-60}
# 0 would mean for ever.
[[ $minutes =~ ^[1-9][0-9]*$ ]] || { echo "not a number of minutes: $minutes" >&2; exit 2; }
shift || true
if [ $# = 0 ]; then
    mapfile -t targets < <("$program")
    set -- "${targets[@]}"
fi

for target in "$@"; do
    corpus="target/fuzz/corpus/$target" found="target/fuzz/found/$target"
    mkdir -p "$corpus" "$found"
    # Whole folders of fixtures are read as further inputs, and never written.
    case $target in
        images-*) more=(fixtures/images fixtures/jpeg fixtures/bmp fixtures/tiff fixtures/tiff-parts fixtures/pnm) ;;
        arrow-*) more=(fixtures/arrow fixtures/arrow-testing) ;;
        parquet-*) more=(fixtures/parquet fixtures/parquet-testing) ;;
        *) more=("fixtures/${target%%-*}") ;;
    esac
    [ -d "${more[0]}" ] || more=()
    end=0
    FUZZ_TARGET="$target" FUZZ_SEEDS="$corpus" "$program" -max_total_time=$((minutes * 60)) -max_len=16384 -timeout=20 \
        -rss_limit_mb=1024 -artifact_prefix="$found/" -print_final_stats=1 "$corpus" "${more[@]}" \
        >"target/fuzz/$target.log" 2>&1 || end=$?
    stat() { sed -n "s/^stat::$1: *//p" "target/fuzz/$target.log"; }
    reached=$(sed -n 's/.*\(cov: [0-9]*\).*/\1/p' "target/fuzz/$target.log" | tail -1)
    echo "$target: $minutes min, $(stat number_of_executed_units) inputs, ${reached:-cov: 0}," \
        "$(stat peak_rss_mb) MB, exit $end"
done
