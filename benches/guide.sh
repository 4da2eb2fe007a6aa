#!/usr/bin/env bash
# Runs the commands of the guide "Find your bottleneck" as they stand there, on this machine, which should be quiet, and shows what
# they print:
#
#     benches/guide.sh [--write] [CASE..]
#
# Cases are 1, 2 and 3: all of them if none is named. What each printed and the pages that it wrote lie in target/guide afterwards,
# each page with a picture where there is a Chromium. `--write` puts the outputs and these pictures into the guide. The dashboard is
# a picture of a terminal, and is taken by hand.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
write=
[ "${1:-}" != --write ] || { write=yes && shift; }
cases=("$@")
[ ${#cases[@]} != 0 ] || cases=(1 2 3)
into=$root/target/guide
rm -rf "$into"
mkdir -p "$into"
cargo build --quiet --release -p ringfeed-cli
export PATH="$root/target/release:$PATH"
ln -s "$root/fixtures" "$into/fixtures"

# The blocks that begin with a command, one file each.
awk -v into="$into" '/^```text$/ { getline; if (/^\$ /) { file = into "/case-" ++n; print > file; next } }
    /^```/ { file = "" } file { print > file }' src/guide/bottleneck.md

cd "$into"
for number in "${cases[@]}"; do
    case=$into/case-$number
    others=()
    # The one that is about other programs has some.
    if [ "$number" = 2 ]; then
        for _ in $(seq 20); do
            timeout 120 sh -c 'while :; do :; done' &
            others+=($!)
        done
    fi
    while IFS= read -r line; do
        case $line in
        '$ cat '*)
            # What follows is the file, up to the next command.
            name=${line#\$ cat }
            awk -v name="$name" '$0 == "$ cat " name { on = 1; next } /^\$ / { on = 0 } on' "$case" >"$name"
            ;;
        '$ '*)
            echo "$line"
            bash -c "${line#\$ }" | tee -a "$case.out"
            ;;
        esac
    done <"$case"
    [ ${#others[@]} = 0 ] || kill "${others[@]}" 2>/dev/null || true
    if [ "$number" = 1 ]; then
        # The advice, followed.
        gunzip --keep lines.csv.gz
        sed 's/lines\.csv\.gz/lines.csv/' lines.toml >unpacked.toml
        echo '$ ringfeed bench --config unpacked.toml --epochs 2'
        ringfeed bench --config unpacked.toml --epochs 2 | tee unpacked.out
    fi
    echo
done

browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
for page in "$into"/*.html; do
    [ -n "$browser" ] && [ -e "$page" ] || break
    "$browser" --headless=new --no-sandbox --disable-gpu --hide-scrollbars --no-first-run --disable-background-networking \
        --user-data-dir="$into/profile" --window-size=960,590 --screenshot="${page%.html}.png" "file://$page" >/dev/null 2>&1 || true
    # A third of the bytes, for the documentation.
    ! command -v convert >/dev/null || convert "${page%.html}.png" -strip +dither -colors 64 "PNG8:${page%.html}.png"
done
rm -rf "$into/profile"
echo "pages and pictures: $into"
if [ -n "$write" ]; then
    python3 "$root/benches/guide.py" "$into" "${cases[@]}"
    git -C "$root" status --short src/guide
fi
