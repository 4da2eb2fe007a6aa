"""Puts what `benches/guide.sh` has run into the guide: the outputs, shortened as they are there, and the pictures of pages.

    benches/guide.py FOLDER CASE...
"""

import base64
import re
import sys
import textwrap
from pathlib import Path

WIDTH = 120
STAGES = ("plan", "read", "decode", "resize", "transform", "settle")
WORDS = "no one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen".split()
GUIDE = Path(__file__).parent.parent / "src/guide"


def table(lines: list[str]) -> list[str]:
    """The table of stages, without those that had nothing to do."""
    begin = next(at for at, line in enumerate(lines) if line.startswith("stage "))
    rows = [lines[begin]]
    for line in lines[begin + 1 :]:
        name = line.split()[0] if line.strip() else ""
        if name not in STAGES or any(row.startswith(name + " ") for row in rows):
            break
        if " 0 % " not in line:
            rows.append(line)
    return rows


def shortened(shown: str, output: str) -> str:
    """The lines of an output that were shown before, by their first words: the verdict is the last of them."""
    lines = output.rstrip("\n").split("\n")
    kept: list[str] = []
    paragraphs = shown.strip("\n").split("\n\n")
    for paragraph in paragraphs[:-1]:
        part: list[str] = []
        for line in paragraph.split("\n"):
            name = line.split()[0]
            if name == "stage":
                part += table(lines)
                break
            # What was broken goes on at the beginning of a line.
            part += [found for found in lines if found.startswith(name + " ")][:1]
        kept.append("\n".join(textwrap.fill(line, WIDTH) if len(line) > WIDTH else line for line in part))
    kept.append(textwrap.fill(lines[-1], WIDTH))
    return "\n\n".join(kept) + "\n"


def with_outputs(guide: str, folder: Path, cases: list[int]) -> str:
    """The guide, with the outputs of these of its cases."""
    blocks = [block for block in re.finditer(r"```text\n(\$ .*?)```", guide, re.S)]
    for case in reversed(cases):
        block = blocks[case - 1]
        head, command, shown = re.match(r"(.*^(\$ ringfeed [^\n]*\n))(.*)", block[1], re.S | re.M).groups()
        output = (folder / f"case-{case}.out").read_text()
        guide = guide[: block.start(1)] + head + shortened(shown, output) + guide[block.end(1) :]
    return guide


def speed(output: str) -> float:
    return float(re.search(r"^speed +([\d,]+) samples/s", output, re.M)[1].replace(",", ""))


def with_unpacked(guide: str, folder: Path) -> str:
    """The guide, with what the advice of the first case gave."""
    before, after = ((folder / name).read_text() for name in ("case-1.out", "unpacked.out"))
    times = round(speed(after) / speed(before))
    word = WORDS[times] if times < len(WORDS) else str(times)
    found = re.compile(r'(`path = "lines\.csv"`\):)\s+[\d,]+\s+samples\s+per\s+second,\s+\w+\s+times')
    paragraphs = guide.split("\n\n")
    [at] = [at for at, paragraph in enumerate(paragraphs) if found.search(paragraph)]
    said = found.sub(rf"\g<1> {speed(after):,.0f} samples per second, {word} times", paragraphs[at])
    paragraphs[at] = textwrap.fill(" ".join(said.split()), WIDTH, break_on_hyphens=False)
    return "\n\n".join(paragraphs)


def main() -> None:
    folder, cases = Path(sys.argv[1]), sorted(map(int, sys.argv[2:]))
    page = GUIDE / "bottleneck.md"
    guide = with_outputs(page.read_text(), folder, cases)
    if 1 in cases:
        guide = with_unpacked(guide, folder)
    page.write_text(guide)
    for picture in folder.glob("*.png"):
        if (GUIDE / "pictures" / picture.name).exists():
            (GUIDE / "pictures" / picture.name).write_bytes(picture.read_bytes())
    inside = GUIDE / "pictures.md"
    lines = []
    for line in inside.read_text().splitlines():
        name = re.match(r"\[(\w+)\]: ", line)[1]
        data = base64.b64encode((GUIDE / f"pictures/{name}.png").read_bytes()).decode()
        lines.append(f"[{name}]: data:image/png;base64,{data}\n")
    inside.write_text("".join(lines))


if __name__ == "__main__":
    main()
