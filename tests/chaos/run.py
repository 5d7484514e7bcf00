"""The long form of the tests of trust: kills at random moments, fuzzed files, planted faults.

    python tests/chaos/run.py                                  # all of it, which takes hours
    python tests/chaos/run.py --only fuzz --fuzz 50000
    python tests/chaos/run.py --only kills --kills 200 --victims train,tune

What is done is kept in build/chaos: the same command goes on where it was stopped, and --anew forgets it. What was
tried, survived and lost is printed and written into docs/trust.md.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import math
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "trust.md"
STATE = ROOT / "build" / "chaos"
BEGIN, END = "<!-- chaos: begin -->", "<!-- chaos: end -->"
PARTS = ("kills", "fuzz", "faults")
AT_ONCE = 580
"""Changed files between two looks at what is kept."""
Row = tuple[str, int, int, str]
"""What was tried, how often, how often something was lost, and what else is to be said."""


class Kept:
    """What is done, in a JSON file a part."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def read(self, part: str) -> dict[str, Any]:
        path = self.folder / f"{part}.json"
        found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        return found

    def write(self, part: str, values: dict[str, Any]) -> None:
        values = values | {"date": str(datetime.date.today())}
        (self.folder / f"{part}.part").write_text(json.dumps(values, indent=1))
        (self.folder / f"{part}.part").replace(self.folder / f"{part}.json")


def do_kills(count: int, names: Sequence[str], kept: Kept) -> None:
    from kills import Kills, kill, warm_up
    from victims import SHARES, VICTIMS

    with tempfile.TemporaryDirectory(prefix="fewtask-chaos-") as name:
        folder = Path(name)
        warm_up(folder)
        for victim in names:
            known = kept.read(f"kills-{victim}")
            done = Kills(**{field.name: known.get(field.name, 0) for field in dataclasses.fields(Kills)})
            wanted = math.ceil(count * SHARES[victim])
            if done.tried < wanted:
                kill(
                    VICTIMS[victim], wanted, folder / f"victim-{victim}", done, seed=0,
                    kept=lambda now, victim=victim: kept.write(f"kills-{victim}", dataclasses.asdict(now)),
                )  # fmt: skip
            print(f"{VICTIMS[victim].what}: {done}", flush=True)


def do_fuzz(count: int, kept: Kept) -> None:
    """In portions, each with a seed of its own, so that it can be stopped at any time."""
    from fuzz import fuzz
    from targets import all_targets

    warnings.simplefilter("ignore")
    total = kept.read("fuzz")
    with tempfile.TemporaryDirectory(prefix="fewtask-fuzz-") as name:
        targets = all_targets(Path(name)) if total.get("tried", 0) < count else []
        while total.get("tried", 0) < count:
            begun, portion = time.perf_counter(), total.get("portion", 0)
            outcomes = fuzz(targets, min(AT_ONCE, count - total.get("tried", 0)), Path(name), seed=portion)
            for reader, outcome in outcomes.items():
                for where, times in outcome.tracebacks.items():
                    print(f"lost: {reader}: {where}, {times} times in portion {portion}", flush=True)
            total = {
                "portion": portion + 1,
                "readers": len(targets),
                "tried": total.get("tried", 0) + sum(one.tried for one in outcomes.values()),
                "refused": total.get("refused", 0) + sum(one.refused for one in outcomes.values()),
                "lost": total.get("lost", 0) + sum(one.lost for one in outcomes.values()),
                "seconds": total.get("seconds", 0.0) + time.perf_counter() - begun,
            }
            kept.write("fuzz", total)
        for lost in Path(name).glob("lost-*"):
            shutil.copy(lost, kept.folder)
    print(f"changed files: {total}", flush=True)


def do_faults(kept: Kept) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "mutation" / "run.py")], capture_output=True, text=True, check=False
    )
    print(done.stdout, flush=True)
    noticed, _, faults, *_ = done.stdout.strip().splitlines()[-1].split()
    kept.write("faults", {"tried": int(faults), "lost": int(faults) - int(noticed)})


def rows_of(kept: Kept) -> list[tuple[str, Row]]:
    """(date, row) of every part of which anything is done."""
    from victims import VICTIMS

    rows: list[tuple[str, Row]] = []
    for name, victim in VICTIMS.items():
        if done := kept.read(f"kills-{name}"):
            note = f"{done['runs']} runs, each compared with an undisturbed one"
            rows.append((done["date"], (f"kills of {victim.what}", done["tried"], done["lost"], note)))
    if done := kept.read("fuzz"):
        note = f"{done['refused']:,} refused in a sentence, the others read"
        rows.append((done["date"], (f"changed files, {done['readers']} readers", done["tried"], done["lost"], note)))
    if done := kept.read("faults"):
        rows.append((done["date"], ("planted faults", done["tried"], done["lost"], "lost: noticed by no test")))
    return rows


def write(rows: Sequence[tuple[str, Row]], page: Path = PAGE) -> None:
    """The figures between the marks of the page; the rest stays."""
    lines = ["| what | tried | survived | lost | | run |", "|---|---|---|---|---|---|"]
    for date, (what, tried, lost, note) in rows:
        lines.append(f"| {what} | {tried:,} | {tried - lost:,} | {lost:,} | {note} | {date} |")
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    page.write_text(f"{before}{BEGIN}\n" + "\n".join(lines) + f"\n{END}{after}", encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> int:
    from victims import VICTIMS

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=PARTS, action="append", help="this part; may be given again; unset: all")
    parser.add_argument("--kills", type=int, default=200, help="SIGKILLs in all")
    parser.add_argument("--victims", default=",".join(VICTIMS), help="what is killed, with commas")
    parser.add_argument("--fuzz", type=int, default=50_000, help="changed files")
    parser.add_argument("--anew", action="store_true", help="forget what was done of these parts")
    parser.add_argument("--state", type=Path, default=STATE, help="folder of what is done")
    parser.add_argument("--no-page", action="store_true", help="leave docs/trust.md as it is")
    arguments = parser.parse_args(argv)
    kept, parts = Kept(arguments.state), arguments.only or PARTS
    for path in [path for part in parts for path in kept.folder.glob(f"{part}*.json")] if arguments.anew else ():
        path.unlink()
    if "kills" in parts:
        do_kills(arguments.kills, arguments.victims.split(","), kept)
    if "fuzz" in parts:
        do_fuzz(arguments.fuzz, kept)
    if "faults" in parts:
        do_faults(kept)
    rows = rows_of(kept)
    if not arguments.no_page:
        write(rows)
    return 1 if any(lost for _, (_, _, lost, _) in rows) else 0


if __name__ == "__main__":
    raise SystemExit(main())
