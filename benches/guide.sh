#!/usr/bin/env bash
# Runs the commands of the guide "Find your bottleneck" as they stand there, on this machine, which should be quiet, and shows what
# they print, for the guide to be brought up to date:
#
#     benches/guide.sh [FOLDER]
#
# What each printed and the pages that it wrote lie in FOLDER afterwards (target/guide), each page with a picture where there is a
# Chromium. The dashboard is a picture of a terminal, and is taken by hand.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
into=${1:-target/guide}
mkdir -p "$into"
into=$(cd "$into" && pwd)
cargo build --quiet --release -p ringfeed-cli
export PATH="$root/target/release:$PATH"
rm -rf "$into"/*
ln -s "$root/fixtures" "$into/fixtures"

# The blocks that begin with a command, one file each.
awk -v into="$into" '/^```text$/ { getline; if (/^\$ /) { file = into "/case-" ++n; print > file; next } }
    /^```/ { file = "" } file { print > file }' src/guide/bottleneck.md

for case in "$into"/case-?; do
    cd "$into"
    others=()
    # The one that is about other programs has some.
    if grep -q 'other programs' "$case" || grep -q 'had no core' "$case"; then
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
    echo
done

browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
for page in "$into"/*.html; do
    [ -n "$browser" ] || break
    "$browser" --headless=new --no-sandbox --disable-gpu --hide-scrollbars --no-first-run --disable-background-networking \
        --user-data-dir="$into/profile" --window-size=960,590 --screenshot="${page%.html}.png" "file://$page" >/dev/null 2>&1 || true
done
rm -rf "$into/profile"
echo "pages and pictures: $into"
