#!/usr/bin/env bash
# Runs a test program, names a test that hangs, and ends the program: otherwise nothing but the limit of a whole run would end it.
# Of a test that has taken 60 seconds, the program itself says so; it then has four minutes more. Some tests have watchdogs of
# their own (`common/watchdog.rs`), which also work without this script. Cargo runs test programs with it if it is told to:
#
#     CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER=$PWD/tests/watched.sh cargo test
set -euo pipefail
limit=${RINGFEED_TEST_LIMIT:-240}

# Programs that are no tests, and those that do not say which test has ended.
case "$1 $*" in
*/deps/*\ --quiet* | *\ -q*) exec "$@" ;;
*/deps/*) ;;
*) exec "$@" ;;
esac

exec {output}< <(exec "$@")
program=$!
declare -A since=()
line="" part=""
while true; do
    status=0
    IFS= read -r -t 5 -u "$output" part || status=$?
    line+=$part
    if ((status == 0)); then
        printf '%s\n' "$line"
        if [[ $line =~ ^test\ (.*)\ has\ been\ running\ for\ over ]]; then
            since[${BASH_REMATCH[1]}]=$SECONDS
        elif [[ $line =~ ^test\ (.*)\ \.\.\. ]]; then
            unset "since[${BASH_REMATCH[1]% - should panic}]"
        fi
        line=""
    elif ((status <= 128)); then
        printf '%s' "$line"
        break
    fi
    for name in "${!since[@]}"; do
        if ((SECONDS - since[$name] >= limit)); then
            echo "the test $name hangs: it goes on $limit seconds after it had taken 60" >&2
            kill -ABRT "$program"
            unset "since[$name]"
        fi
    done
done
wait "$program"
