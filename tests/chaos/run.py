"""The long form of the tests of trust: kills at random moments, fuzzed files, planted faults.

    python tests/chaos/run.py --kills 200 --fuzz 50000

What was tried, survived and lost is printed and written into docs/trust.md, with the date and the numbers asked for.
"""

from __future__ import annotations

import argparse
import datetime
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "trust.md"
BEGIN, END = "<!-- chaos: begin -->", "<!-- chaos: end -->"
Row = tuple[str, int, int, str]
"""What was tried, how often, how often something was lost, and what else is to be said."""


def kill_rows(count: int, folder: Path) -> list[Row]:
    from kills import kill

    rows = []
    for kind, share in (("train", count - count // 4), ("grid", count // 4)):
        if share:
            done = kill(kind, share, folder)
            rows.append(
                (f"kills of `{kind}` at random moments", done.tried, done.lost, f"{done.runs} runs, each compared")
            )
            print(*rows[-1], sep="  ", flush=True)
    return rows


def fuzz_rows(count: int, folder: Path) -> list[Row]:
    from fuzz import all_targets, fuzz

    warnings.simplefilter("ignore")
    outcomes = fuzz(all_targets(folder), count, folder)
    for name, outcome in outcomes.items():
        print(f"{name:16s} {outcome.tried:6d} tried {outcome.refused:6d} refused", outcome.tracebacks or "", flush=True)
    tried, lost = sum(o.tried for o in outcomes.values()), sum(o.lost for o in outcomes.values())
    refused = sum(o.refused for o in outcomes.values())
    return [
        (f"changed files, {len(outcomes)} readers", tried, lost, f"{refused:,} refused in a sentence, the rest read")
    ]


def fault_rows() -> list[Row]:
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "mutation" / "run.py")], capture_output=True, text=True, check=False
    )
    print(done.stdout, flush=True)
    noticed, _, faults, *_ = done.stdout.strip().splitlines()[-1].split()
    return [("planted faults", int(faults), int(faults) - int(noticed), f"{noticed} noticed by the tests")]


def write(rows: list[Row], page: Path = PAGE) -> None:
    """The figures between the marks of the page; the rest stays."""
    lines = [f"Last run: {datetime.date.today()}.", "", "| what | tried | lost | |", "|---|---|---|---|"]
    lines += [f"| {what} | {tried:,} | {lost:,} | {note} |" for what, tried, lost, note in rows]
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    page.write_text(f"{before}{BEGIN}\n" + "\n".join(lines) + f"\n{END}{after}", encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200, help="SIGKILLs, a quarter of them to a grid")
    parser.add_argument("--fuzz", type=int, default=50_000, help="changed files")
    parser.add_argument("--no-faults", action="store_true", help="leave the planted faults out")
    parser.add_argument("--no-page", action="store_true", help="leave docs/trust.md as it is")
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="fewtask-chaos-") as folder:
        rows = kill_rows(arguments.kills, Path(folder)) if arguments.kills else []
        rows += fuzz_rows(arguments.fuzz, Path(folder)) if arguments.fuzz else []
    rows += [] if arguments.no_faults else fault_rows()
    if not arguments.no_page:
        write(rows)
    return 1 if any(lost for _, _, lost, _ in rows) else 0


if __name__ == "__main__":
    raise SystemExit(main())
