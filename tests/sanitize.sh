#!/usr/bin/env bash
# Runs the suites that touch memory and threads under AddressSanitizer (with leaks), ThreadSanitizer and valgrind.
#
#     tests/sanitize.sh [address|thread|valgrind]...     # all of them without an argument
#
# Sanitizers are no part of the stable compiler's interface, so that it is told to be another one (RUSTC_BOOTSTRAP). Ringfeed and
# its tests are instrumented, dependencies and the standard library are not: what those do wrongly with Ringfeed's memory is
# seen where they allocate and free, and a race where either side is Ringfeed's code. Valgrind runs plain test binaries,
# with whatever they are linked to, and sees uses of memory that was never written as well.
set -euo pipefail
cd "$(dirname "$0")/.."
features="tokio,cuda"
memory=(--lib --test device --test device_contract --test device_convert --test dlpack --test leases --test workspace
    --test faults --test arrays --test tokens --test images --test cuda)
threads=(--lib --test device --test device_contract --test dlpack --test leases --test workspace --test faults --test cuda)
# Few cases of property tests: each is many times slower.
export PROPTEST_CASES=8 PROPTEST_RNG_SEED=2026 RUST_BACKTRACE=0

sanitized() {
    local flags="[\"-Zsanitizer=$1\", \"-Cunsafe-allow-abi-mismatch=sanitizer\"]"
    shift
    RUSTC_BOOTSTRAP=1 cargo test --features "$features" -Zprofile-rustflags \
        --config "profile.dev.package.ringfeed.rustflags=$flags" --no-fail-fast "$@"
}

address() {
    ASAN_OPTIONS="detect_stack_use_after_return=1" sanitized address "${memory[@]}"
}

thread() {
    TSAN_OPTIONS="halt_on_error=0 exitcode=66" sanitized thread "${threads[@]}"
}

valgrind() {
    local runner="valgrind --quiet --error-exitcode=99 --leak-check=no --fair-sched=yes"
    CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="$runner" cargo test --features "$features" --no-fail-fast \
        --test device_contract --test dlpack --test leases
}

for tool in "${@:-address thread valgrind}"; do
    for one in $tool; do
        echo "+ $one"
        "$one"
    done
done
