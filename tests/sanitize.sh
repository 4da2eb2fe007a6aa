#!/usr/bin/env bash
# Runs the suites that touch memory and threads under AddressSanitizer (with leaks), ThreadSanitizer, valgrind and Miri.
#
#     tests/sanitize.sh [address|thread|valgrind|miri]...     # the first three without an argument
#
# Sanitizers are no part of the stable compiler's interface, so that it is told to be another one (RUSTC_BOOTSTRAP).
# AddressSanitizer instruments Ringfeed and its tests, not dependencies and the standard library: what those do wrongly with
# Ringfeed's memory is seen where they allocate and free. Tests are left out that leak by design: those that forget a batch,
# and that of a broken device, which abandons its memory. ThreadSanitizer takes whatever a lock orders for a race unless the
# standard library is instrumented, too, which needs its source; RUSTUP_TOOLCHAIN chooses a compiler that has it. Valgrind runs
# plain test binaries, with whatever they are linked to, and sees uses of memory that was never written as well. Miri interprets the
# layouts, rows and views of batches; memory of the system (mmap, limits of the process) and other libraries it cannot. It needs a
# nightly compiler: RUSTUP_TOOLCHAIN=nightly, rustup component add miri.
set -euo pipefail

# Cargo calls this script as the compiler of Ringfeed and its tests.
if [ -n "${SANITIZER:-}" ]; then
    RUSTC_BOOTSTRAP=1 exec "$@" "-Zsanitizer=$SANITIZER" -Cunsafe-allow-abi-mismatch=sanitizer -Cstrip=none -Cdebuginfo=1
fi

cd "$(dirname "$0")/.."
features="tokio,cuda,parquet"
memory=(--lib --test device --test device_contract --test device_convert --test dlpack --test leases --test workspace
    --test faults --test formats --test images --test order --test loader --test transforms --test cuda)
# Not `cuda`: the simulated driver is a library of its own, whose locks are not instrumented.
threads=(--lib --test device --test device_contract --test dlpack --test leases --test workspace --test faults --test storage
    --test stream --test order --test loader --test transforms --test stats --test tracing)
# Few cases of property tests: each is many times slower.
export PROPTEST_CASES=8 PROPTEST_RNG_SEED=2026 RUST_BACKTRACE=0

# Cargo does not know the wrapper's environment, hence a folder of its own.
address() {
    SANITIZER=address RUSTC_WORKSPACE_WRAPPER="$PWD/tests/sanitize.sh" CARGO_INCREMENTAL=0 \
        ASAN_OPTIONS="detect_stack_use_after_return=1:allocator_may_return_null=1" \
        cargo test --features "$features" --target-dir target/address --no-fail-fast "${memory[@]}" \
        -- --skip a_forgotten_batch_only_shrinks --skip a_broken_device_says_so
}

thread() {
    if [ ! -d "$(rustc --print sysroot)/lib/rustlib/src/rust/library" ]; then
        echo "ThreadSanitizer needs the standard library's source: rustup component add rust-src" >&2
        return 1
    fi
    RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=thread" TSAN_OPTIONS="halt_on_error=0 exitcode=66 allocator_may_return_null=1" \
        cargo test -Zbuild-std --target "$(rustc -vV | sed -n 's/^host: //p')" --features "$features" \
        --target-dir target/thread --no-fail-fast "${threads[@]}"
}

valgrind() {
    local runner="valgrind --quiet --error-exitcode=99 --leak-check=no --fair-sched=yes"
    CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="$runner" cargo test --features "$features" --no-fail-fast \
        --test device_contract --test dlpack --test leases
}

miri() {
    MIRIFLAGS="-Zmiri-disable-isolation" cargo miri test -p ringfeed --no-default-features --lib --target-dir target/miri \
        -- layout:: row:: view::
}

for tool in "${@:-address thread valgrind}"; do
    for one in $tool; do
        echo "+ $one"
        "$one"
    done
done
