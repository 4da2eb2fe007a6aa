#!/bin/sh
# Ringfeed beside other loaders: one command, all of them in turn on the same machine and data, medians in a table.
#
#     benches/peers.sh HARNESS [WORKLOAD..] [-- ARGUMENTS OF THE HARNESS..]
#
# HARNESS is the folder with bench_peers.py; its README says how to install the others and how to make the data. It takes
# from the environment:
#
#     PEERS_DATA, PEERS_VENVS   the data, and the virtual environments of the others
#     PEERS_OUT                 folder for runs.jsonl, table.txt and table.md (default: target/peers)
#     PEERS_FEATURES            features of Ringfeed to build with, separated by commas
#     PEERS_OURS                our variants to run, by name (default: all that the workload has)
#     PEERS_PYTHON              a Python with ringfeed (built for release) and torch, for the variants through Python
#
# For example, three rounds against the three fastest, each waiting for a quiet machine:
#
#     PEERS_DATA=~/data PEERS_VENVS=~/venvs benches/peers.sh ~/peers image-train-u8 -- --rounds 3 --wait-quiet 60 \
#         --peers tfdata threads-turbo-cv2-scaled grain-threads ringfeed
#
# The workload `train` is an epoch of training a small network on one core of the processor, over the time that its steps take
# on batches in memory; ours takes part through Python there:
#
#     PEERS_PYTHON=~/venvs/ours/bin/python ... benches/peers.sh ~/peers train -- --rounds 3 \
#         --peers torch-turbo-w1 torch-pil-w2 webdataset-w1 in-memory ringfeed-python-t1 ringfeed-python-t2
#
# A variant of ours takes part under a name of its own, as `variants` below lists them. Rounds of one workload are
# interleaved; workloads come one after another. Runs are added to runs.jsonl, and the table is of all that it holds.
set -eu

usage() {
    sed -n '2,/^set /{/^set /!s/^# \{0,1\}//p}' "$0" >&2
    exit 2
}

harness=${1:-}
[ -f "$harness/bench_peers.py" ] || usage
shift
: "${PEERS_DATA:?is the folder of the data}" "${PEERS_VENVS:?is the folder of the virtual environments}"
export PEERS_DATA PEERS_VENVS PYTHONDONTWRITEBYTECODE=1

workloads=
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    workloads="$workloads $1"
    shift
done
[ "${1:-}" = -- ] && shift
: "${workloads:=image-train-u8 image-train-f32 image-eval-u8 csv csv-mixed fixed-f32 fixed-u8 tokens wav
    parquet parquet-zstd parquet-shuffled jsonl tfrecord tfrecord-images png png-small jpeg-large jpeg-progressive}"

# Name and settings of our variants: settings that the workload does not have would be an error.
variants() {
    [ "$1" = train ] || echo "ringfeed"
    case $1 in
    image-*)
        echo "ringfeed-turbo --set options.jpeg=libjpeg_turbo"
        echo "ringfeed-tar --tar"
        case "${PEERS_FEATURES:-}" in *turbojpeg*)
            echo "ringfeed-c --set options.jpeg=turbo_jpeg"
            echo "ringfeed-scaled --set options.dct_scaling=true"
            ;;
        esac
        ;;
    csv | csv-mixed)
        echo "ringfeed-map --set options.access=map"
        echo "ringfeed-shuffled-read --set shuffle=20"
        echo "ringfeed-shuffled-map --set shuffle=20 --set options.access=map"
        ;;
    fixed-* | tokens)
        echo "ringfeed-read --set options.access=read"
        ;;
    esac
}

here=$(cd "$(dirname "$0")/.." && pwd)
program=
if [ "$workloads" != " train" ]; then
    program=$(cd "$here" && cargo bench --no-run --bench peers --features "${PEERS_FEATURES:-}" --message-format json |
        sed -n 's/.*"name":"peers".*"executable":"\([^"]*\)".*/\1/p' | tail -1)
    [ -x "$program" ] || { echo "cargo built no program" >&2; exit 1; }
fi
out=${PEERS_OUT:-$here/target/peers}
mkdir -p "$out"
out=$(cd "$out" && pwd)

# Those through Python: name, and arguments of `python/benches/peers.py`.
python_variants() {
    [ -n "${PEERS_PYTHON:-}" ] || return 0
    case $1 in
    train)
        echo "ringfeed-python-t1 --threads 1"
        echo "ringfeed-python-t2 --threads 2"
        ;;
    *) echo "ringfeed-python --rust $program" ;;
    esac
}

protocol='--data {data} --workload {workload} --batch {batch} --workers {workers} --consumer-ms {consumer_ms} --epochs {epochs}'
for workload in $workloads; do
    (
        while read -r name settings; do
            [ -n "$name" ] || continue
            case " ${PEERS_OURS:-$name} " in
            *" $name "*) set -- "$@" --cmd "$name=$program $protocol $settings" ;;
            esac
        done <<END
$(variants "$workload")
END
        while read -r name arguments; do
            [ -n "$name" ] || continue
            case " ${PEERS_OURS:-$name} " in
            *" $name "*) set -- "$@" --cmd "$name=$PEERS_PYTHON $here/python/benches/peers.py $arguments $protocol" ;;
            esac
        done <<END
$(python_variants "$workload")
END
        exec python3 "$harness/bench_peers.py" --workloads "$workload" --out "$out/runs.jsonl" "$@"
    )
done
python3 "$harness/bench_peers.py" --report "$out/runs.jsonl" --table "$out/table.md" | tee "$out/table.txt"
