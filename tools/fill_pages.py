"""Fills in what pages copy from elsewhere: results, the map of where interpolation pays, ingredients,
what choosing is worth, what small set functions and the second order are worth, the house.

    python tools/fill_pages.py          # or make pages

The first table is that of docs/results/index.md, which `fewtask report` makes; those of ingredients and of choosing
come from the records; the picture is that of docs/rooms.toml. The tests compare all of them with what is committed.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from xml.sax.saxutils import escape

from fewtask.changes import flat, nested
from fewtask.cli.demo import METHODS, PRESET, SEEDS, demo_table, readme_table
from fewtask.experiments.grid import gather_cells
from fewtask.experiments.ledger import Ledger
from fewtask.experiments.search import preset_text
from fewtask.experiments.summary import summarise
from fewtask.files import filled
from fewtask.presets import preset_changes
from fewtask.report.collect import Collected, collect
from fewtask.report.ingredients import ingredients_table
from fewtask.report.nested import nested_table
from fewtask.report.tradeoff import SECOND_ORDER, SMALL_PHI, tradeoff_picture, tradeoff_table

ROOT = Path(__file__).resolve().parents[1]
INDEX = ROOT / "docs" / "results" / "index.md"
HOUSE = ROOT / "docs" / "pictures" / "house.svg"
README = ROOT / "README.md"
START = ROOT / "docs" / "index.md"
EXPERIMENTS = ROOT / "experiments"
CHOSEN = EXPERIMENTS / "rainbow-digits" / "best" / "preset.toml"
SHIPPED = ROOT / "src" / "fewtask" / "presets" / f"{PRESET}.toml"
MAP = INDEX.parent / "rainbow-digits-map.svg"
WHAT_WORKS = ROOT / "docs" / "what-works.md"
WHICH = ROOT / "docs" / "which-method.md"
SPEED = ROOT / "docs" / "speed.md"
SECOND = ROOT / "docs" / "second-order.md"
STUDIES = {SMALL_PHI: SPEED, SECOND_ORDER: SECOND}
SHOWN = ("Meta-Interpolation", "best of the others", "difference, paired", "seeds")
LAMBDA_SHOWN = ("validation %", "test % (seeds)", "row − ProtoNet")
NOTE = (
    "Test accuracy in percent ± half of the 95 % interval over seeds. Every method had the best of as many settings, "
    "chosen on meta-validation. How each was made, and [what was found](index.md#findings)."
)


def results_table(index: str) -> str:
    """The data sets on which every method was given its best, a row each; the results in short; the other data sets.

    From the page of results: some columns of its first table, with links from the root.
    """
    head, _, *rows = [_cells(line) for line in _block(index, "\n| ")]
    # [title](page), the experiment and, where it is not the primary one, its role.
    names = [row[0].split("<br>") for row in rows]
    best = [[name[0], *row[1:]] for name, row in zip(names, rows) if name[1:] == ["`best`"]]
    others = [name[0] for name in names if name[1:] != ["`best`"]]
    lines = []
    if best:
        lines += ["| data set | " + " | ".join(SHOWN) + " |", "|---" + "|---:" * len(SHOWN) + "|"]
        places = [0, *(head.index(name) for name in SHOWN)]
        lines += ["| " + " | ".join(row[place].replace("<br>", " ") for place in places) + " |" for row in best]
        lines += ["", NOTE, "", *(_block(index, "## In short\n\n- ") if "## In short" in index else [])]
    if others:
        lines += ["", f"Not yet with every method at its best: {', '.join(others)}."]
    return re.sub(r"\]\((?!http)", "](docs/results/", "\n".join(lines))


def lambda_table(page: str) -> str:
    """What λ gains on the classes that it learns from and on others: columns of that experiment's table."""
    head, _, *rows = [_cells(line) for line in _block(page[page.index("experiment `esc50/lambda-fits`") :], "\n|  | ")]
    places = [0, *(head.index(name) for name in LAMBDA_SHOWN)]
    lines = [[head[place] for place in places], ["---", *["---:"] * len(LAMBDA_SHOWN)]]
    lines += [[row[place] for place in places] for row in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _block(page: str, start: str) -> list[str]:
    """The lines of a page from the last line of `start` to the next empty one."""
    place = page.index(start) + len(start) - len(start.splitlines()[-1])
    return page[place:].split("\n\n")[0].splitlines()


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split(" | ")]


def map_picture(folder: str) -> str:
    """The map of where interpolation pays, once no cell of it lacks its runs; `folder`: of the results for the page."""
    if not MAP.exists() or "not run" in MAP.read_text(encoding="utf-8"):
        return ""
    words = "Where interpolation pays on rainbow digits, by training tasks and rows a class, against ProtoNet."
    return f"![{words}]({folder}/{MAP.name})\n\n{words} [How it was made]({folder}/rainbow-digits.md#where-it-pays)."


def demo_block() -> str:
    """The runs of the demo from the ledger, where experiments have made them too."""
    table = demo_table(list(METHODS))
    return readme_table(summarise(table, gather_cells(table.cells, Ledger(EXPERIMENTS, EXPERIMENTS), SEEDS)))


def shipped_preset() -> str:
    """The settings that the search of rainbow-digits/best chose, as a preset that needs no other file."""
    changes = preset_changes(str(CHOSEN))
    methods = {method: tuple(flat(own).items()) for method, own in changes.pop("methods").items()}
    about = "Rainbow digits, every method at its best: the settings of experiments/rainbow-digits/best."
    return preset_text("rainbow-digits", about, [nested(flat(changes).items())], methods)


def study_pages(collected: Collected) -> dict[Path, str]:
    """The pages of the studies of cost, with their tables, and the pictures that have something to show."""
    found = {}
    for name, page in STUDIES.items():
        picture, table = tradeoff_picture(collected, name), tradeoff_table(collected, name)
        drawn = page.parent / "pictures" / f"{name}.svg"
        if picture:
            found[drawn] = picture
            table = f"![What each row brings, and what it costs](pictures/{drawn.name})\n\n{table}"
        found[page] = filled(page.read_text(encoding="utf-8"), name, table)
    lambdas = lambda_table((INDEX.parent / "esc50.md").read_text(encoding="utf-8"))
    found[SECOND] = filled(found[SECOND], "lambda-fits", lambdas)
    return found


def pages() -> dict[Path, str]:
    """Every page that copies something, as it should be."""
    results = results_table(INDEX.read_text(encoding="utf-8"))
    collected = collect(EXPERIMENTS)
    readme = filled(README.read_text(encoding="utf-8"), "map", map_picture("docs/results"))
    return {
        README: filled(filled(readme, "results", results), "demo", demo_block()),
        SHIPPED: shipped_preset(),
        START: filled(START.read_text(encoding="utf-8"), "map", map_picture("results")),
        WHAT_WORKS: filled(WHAT_WORKS.read_text(encoding="utf-8"), "ingredients", ingredients_table(collected)),
        WHICH: filled(WHICH.read_text(encoding="utf-8"), "nested", nested_table(collected)),
        HOUSE: house(rooms()),
        **study_pages(collected),
    }


def house(rooms: list[dict[str, object]]) -> str:
    """An SVG with the rooms from the ground up, and what each hands up to those above it."""
    width, high, gap, left = 860, 54, 26, 20
    total = len(rooms) * (high + gap) - gap + 20
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {total}" font-family="sans-serif">',
        '<defs><marker id="up" viewBox="0 0 10 10" refX="5" refY="5" markerWidth="6" markerHeight="6" orient="auto">'
        '<path d="M0 0L10 5L0 10z" fill="#555"/></marker></defs>',
        f'<rect width="{width}" height="{total}" fill="#fff"/>',
    ]
    for level, room in enumerate(rooms):
        y = total - 10 - high - level * (high + gap)
        names = ", ".join(str(name) for name in room["modules"])  # type: ignore[attr-defined]
        does = str(room["does"]).replace("`", "")
        box = f'x="{left}" y="{y}" width="{width - 2 * left}" height="{high}" rx="6"'
        out += [
            f'<rect {box} fill="#e8f1f8" stroke="#0072B2"/>',
            f'<text x="{left + 12}" y="{y + 22}" font-size="14" font-weight="bold" fill="#222">{escape(names)}</text>',
            f'<text x="{left + 12}" y="{y + 42}" font-size="11.5" fill="#333">{escape(_short(does))}</text>',
        ]
        if level < len(rooms) - 1:
            gives = escape(str(room["gives"]))
            out += [
                f'<path d="M430 {y - 2}V{y - gap + 6}" stroke="#555" stroke-width="1.5" marker-end="url(#up)"/>',
                f'<text x="442" y="{y - gap // 2 + 4}" font-size="12" fill="#a34700">{gives}</text>',
            ]
    return "\n".join([*out, "</svg>", ""])


def _short(text: str, most: int = 128) -> str:
    return text if len(text) <= most else text[: text.rindex(" ", 0, most)].rstrip(",;") + " …"


def rooms() -> list[dict[str, object]]:
    found: list[dict[str, object]] = tomllib.loads((ROOT / "docs" / "rooms.toml").read_text(encoding="utf-8"))["room"]
    return found


def main() -> None:
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
