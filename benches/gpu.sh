#!/bin/sh
# The upload stage on a GPU machine: tests that must not skip, a memory checker where there is one, and the benchmarks.
#
#     benches/gpu.sh build          where cargo is: puts what runs into target/gpu
#     benches/gpu.sh run [FOLDER]   on the GPU machine, from the repository's root: runs it, and writes FOLDER/*.txt
#
# Both machines may be the same one. FOLDER is target/gpu unless given. Nothing is built by `run`.
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
cd "$here"

# The executable that cargo built for target NAME, from its messages: other programs that a test needs are among them, too.
built() {
    name=$1
    shift
    cargo "$@" "$name" --no-run --message-format=json |
        sed -n "s/.*\"name\":\"$name\".*\"executable\":\"\([^\"]*\)\".*/\1/p" | tail -n 1
}

case "${1:-}" in
build)
    mkdir -p target/gpu
    cp "$(built cuda test --release --features cuda --test)" target/gpu/test-cuda
    cp "$(built upload bench --features cuda --bench)" target/gpu/bench-upload
    cargo build --release --features cuda --bin ringfeed
    cp target/release/ringfeed target/gpu/ringfeed
    ls -l target/gpu
    ;;
run)
    out=${2:-target/gpu}
    mkdir -p "$out"
    export RINGFEED_REQUIRE_GPU=1
    failed=0
    # Shows what a command says, keeps it in a file, and remembers whether it failed.
    record() {
        name=$1
        shift
        "$@" > "$out/$name.txt" 2>&1 || failed=1
        cat "$out/$name.txt"
    }
    record machine nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv
    record tests target/gpu/test-cuda --test-threads 1
    if command -v compute-sanitizer > /dev/null; then
        # These two keep a stream waiting for themselves, and the checker then stops all threads.
        record memcheck compute-sanitizer --tool memcheck --error-exitcode 1 target/gpu/test-cuda --test-threads 1 \
            --skip everything_can_be_dropped_in_every_state --skip memory_that_is_freed_while_a_stream_is_busy
    else
        record memcheck echo "no compute-sanitizer: not checked"
    fi
    record upload target/gpu/bench-upload --bench
    record bench target/gpu/ringfeed bench fixtures/photos --size 224 --epochs 50 --device cuda:0 --convert bf16
    exit $failed
    ;;
*)
    sed -n '2,8s/^# \{0,1\}//p' "$0"
    exit 2
    ;;
esac
