"""The command line: ``python -m ringfeed inspect photos/``, and ``help`` for the rest."""

from __future__ import annotations

import signal
import sys

from . import _ringfeed


def main() -> int:
    """Runs the command that was typed; returns the exit status."""
    # Python has nothing to clean up.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _ringfeed.command(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
