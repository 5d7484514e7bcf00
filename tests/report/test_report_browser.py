"""The page in headless Chromium, in a frame as wide as a phone: no errors, sorting, filtering, no overflow."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from made_records import fill

from fewtask.report.build import page
from fewtask.report.collect import collect

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: no program of that name")

# A window of Chromium has a least width, a frame has none; what the frame finds goes to the page around it.
FRAME = """<!doctype html><iframe src="page.html" style="width:{width}px;height:800px;border:0"></iframe><pre></pre>
<script>addEventListener("message", (e) => {{ document.querySelector("pre").textContent = e.data; }});</script>"""
PROBE = """<script>
addEventListener("load", () => {
  const table = document.getElementById("esc50-parts-table8-table"), heading = table.tHead.rows[0].cells[2];
  const values = () => [...table.tBodies[0].rows].map((row) => Number(row.cells[2].dataset.value));
  const found = { width: innerWidth, room: document.documentElement.clientWidth, before: values() };
  found.content = document.documentElement.scrollWidth;
  heading.querySelector("button").click();
  Object.assign(found, { once: values(), sortedOnce: heading.getAttribute("aria-sort") });
  heading.querySelector("button").click();
  Object.assign(found, { twice: values(), sortedTwice: heading.getAttribute("aria-sort") });
  const tools = document.querySelector('[data-for="esc50-parts-table8-table"]'), input = tools.querySelector("input");
  const shown = () => [...table.tBodies[0].rows].filter((row) => !row.hidden).map((row) => row.cells[0].textContent);
  input.value = "mlti";
  input.dispatchEvent(new Event("input"));
  Object.assign(found, { filtered: shown(), said: tools.querySelector("output").textContent });
  const select = tools.querySelector("select");
  select.value = "esc50/parts, 5 classes";
  select.dispatchEvent(new Event("change"));
  found.both = shown();
  const folded = document.getElementById("nci");
  found.folded = !folded.open;
  location.hash = "nci-main-table1";
  dispatchEvent(new Event("hashchange"));
  found.unfolded = folded.open;
  for (const details of document.querySelectorAll("details")) details.open = true;
  found.opened = document.documentElement.scrollWidth;
  document.querySelector("figure circle").dispatchEvent(new PointerEvent("pointerover", { bubbles: true }));
  found.tip = document.querySelector("figure .tip").textContent;
  found.ground = getComputedStyle(document.body).backgroundColor;
  parent.postMessage(JSON.stringify(found), "*");
});
</script>"""


def visit(folder: Path, text: str, *flags: str, width: int = 375) -> tuple[dict[str, Any], list[str]]:
    """What the probe found in the page, and what the console said."""
    (folder / "page.html").write_text(text.replace("</body>", PROBE + "</body>"), encoding="utf-8")
    (folder / "frame.html").write_text(FRAME.format(width=width), encoding="utf-8")
    command = [
        str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
        f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=5000", *flags, "--dump-dom",
        (folder / "frame.html").as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    found = re.search(r"<pre>(.*?)</pre>", done.stdout, re.S)
    assert found is not None
    return json.loads(html.unescape(found[1])), [line for line in done.stderr.splitlines() if "CONSOLE" in line]


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    root = fill(tmp_path_factory.mktemp("all"), 1, ("nci/main", "esc50/main", "esc50/parts"))
    # Long names must not widen the page.
    declared = root / "esc50" / "parts" / "experiment.toml"
    declared.write_text('title = "' + "a very long title of an experiment " * 4 + '"\n' + declared.read_text())
    (root / "nci" / "dataset.toml").write_text('features = "' + "many words on features " * 9 + '"\n')
    return page(collect(root))


@pytest.fixture(scope="module")
def visited(text: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], list[str]]:
    return visit(tmp_path_factory.mktemp("page"), text)


def test_the_console_stays_empty(visited: tuple[dict[str, Any], list[str]]) -> None:
    assert visited[1] == []


def test_an_error_would_have_been_seen(text: str, tmp_path: Path) -> None:
    _, said = visit(tmp_path, text.replace("</body>", "<script>nothing.at.all();</script></body>"))
    assert any("nothing is not defined" in line for line in said)


def test_a_click_on_a_heading_sorts_and_another_sorts_the_other_way(visited: tuple[dict[str, Any], list[str]]) -> None:
    found = visited[0]
    assert found["once"] == sorted(found["before"], reverse=True) != found["before"]
    assert found["twice"] == sorted(found["before"])
    assert (found["sortedOnce"], found["sortedTwice"]) == ("descending", "ascending")


def test_filters_leave_the_rows_that_fit(visited: tuple[dict[str, Any], list[str]]) -> None:
    found = visited[0]
    assert len(found["filtered"]) == 4
    assert all(name.startswith("MLTI") for name in found["filtered"])
    assert found["said"].startswith("4 of 12")
    assert found["both"] == ["MLTI"]


def test_the_page_is_no_wider_than_a_phone(visited: tuple[dict[str, Any], list[str]]) -> None:
    found = visited[0]
    assert found["width"] == 375
    # Less than the frame by the width of its scroll bar.
    assert found["room"] <= 375
    assert found["content"] == found["room"]
    assert found["opened"] == found["room"]


def test_a_link_opens_what_is_folded(visited: tuple[dict[str, Any], list[str]]) -> None:
    assert (visited[0]["folded"], visited[0]["unfolded"]) == (True, True)


def test_pointing_at_a_mark_names_it(visited: tuple[dict[str, Any], list[str]]) -> None:
    assert re.search(r"\d", visited[0]["tip"])


def test_the_page_follows_the_readers_dark_mode(
    visited: tuple[dict[str, Any], list[str]], text: str, tmp_path: Path
) -> None:
    dark, said = visit(tmp_path, text, "--blink-settings=preferredColorScheme=0")
    assert visited[0]["ground"] == "rgb(255, 255, 255)"
    assert dark["ground"] == "rgb(20, 24, 29)"
    assert said == []
