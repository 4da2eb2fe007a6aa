"""What a person sees of a page: Chromium lays it out, and a script on it measures."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

QUIET = ["--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"]


def measured(page: str, expression: str, folder: Path, *, width: int = 900, dark: bool = False) -> Any:
    """What ``expression`` in JavaScript is when the page has been loaded; skips the test where there is no Chromium."""
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        pytest.skip("there is no Chromium")
    script = f"""<pre id="seen"></pre><script>addEventListener("load", () => {{
      document.getElementById("seen").textContent = JSON.stringify({expression});
    }})</script>"""
    (folder / "page.html").write_text(f"<!doctype html><meta charset=utf-8><body>{page}{script}</body>")
    settings = ["--headless=new", "--no-sandbox", "--disable-gpu", "--dump-dom", "--virtual-time-budget=3000"]
    settings += [f"--window-size={width},900", f"--blink-settings=preferredColorScheme={0 if dark else 1}"]
    settings += [f"--user-data-dir={folder / f'profile-{width}-{dark}'}", *QUIET]
    try:
        shown = subprocess.run(
            [browser, *settings, (folder / "page.html").as_uri()], capture_output=True, text=True, timeout=120
        ).stdout
    except subprocess.TimeoutExpired:
        pytest.skip("Chromium takes too long to show a page here")
    found = re.search(r'<pre id="seen">(.+?)</pre>', shown, re.DOTALL)
    if found is None:
        pytest.skip("Chromium can't show a page here")
    return json.loads(html.unescape(found[1]))
