"""The speed benchmark as a program: python benchmarks/speed.py [the flags of `fewtask bench`]."""

from __future__ import annotations

import sys

from fewtask.cli import main

if __name__ == "__main__":
    sys.exit(main(["bench", *sys.argv[1:]]))
