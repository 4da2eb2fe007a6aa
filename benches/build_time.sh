#!/usr/bin/env bash
# Processor time of building the library from nothing: as most have it, and with its core alone (CSV and lines of text; no other
# formats, no other encodings). In the dev profile without debug information; what runs beside it on the machine makes it longer.
#
#     benches/build_time.sh [FLAGS OF CARGO BUILD..]      # both, unless flags say what to build
#
# Prints user and system time of everything that ran, and of the compilers of each crate that took half a second or more. Builds
# twice for that: the time of each compiler is taken by this script, which would add to that of everything.
set -euo pipefail

# Cargo calls this script as the compiler.
if [ -n "${BUILD_TIMES:-}" ]; then
    name=${CARGO_PKG_NAME:-}
    case " $* " in
    *" --crate-name build_script_"*) name="$name (build script)" ;;
    esac
    TIMEFORMAT="%U %S $name"
    exec 3>&1 4>&2
    { time "$@" >&3 2>&4; } 2>> "$BUILD_TIMES"
    exit
fi

script=$(realpath "$0")
cd "$(dirname "$script")/.."

measure() {
    local folder
    folder=$(mktemp -d)
    # shellcheck disable=SC2064 # the folder of now
    trap "rm -rf '$folder'" RETURN
    echo "cargo build -p ringfeed $*"
    build() {
        CARGO_TARGET_DIR="$folder/$1" CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=false \
            cargo build --quiet --locked -p ringfeed "${@:2}"
    }
    TIMEFORMAT="    %U s user, %S s system"
    time build all "$@"
    BUILD_TIMES="$folder/times" RUSTC_WRAPPER="$script" build each "$@"
    awk '{ took[$3 " " $4 " " $5] += $1 + $2 } END { for (name in took) if (took[name] >= 0.5) printf "%9.1f  %s\n", took[name], name }' \
        "$folder/times" | sort -rn
}

if [ $# -gt 0 ]; then
    measure "$@"
else
    measure
    measure --no-default-features
fi
