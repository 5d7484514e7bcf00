"""The site builds without a warning, and every page of it can be reached."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from pages import ROOT

import fewtask


class _Settings(yaml.SafeLoader):
    """mkdocs.yml without the tags that name Python objects."""


_Settings.add_multi_constructor("tag:yaml.org,2002:python/", lambda loader, suffix, node: suffix)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def listed(nav: list[object]) -> list[str]:
    """The pages of a navigation, in order."""
    pages: list[str] = []
    for entry in nav:
        for value in entry.values() if isinstance(entry, dict) else [entry]:
            pages += listed(value) if isinstance(value, list) else [str(value)]
    return pages


def test_the_strict_build_has_every_page_of_docs(site: Path) -> None:
    nav = listed(yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), _Settings)["nav"])
    there = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    assert set(nav) == there, "every page stands in the navigation of mkdocs.yml"
    for page in nav:
        built = site / page.removesuffix(".md") / "index.html" if page != "index.md" else site / "index.html"
        if page.endswith("/index.md"):
            built = site / page.removesuffix(".md").removesuffix("index") / "index.html"
        text = re.sub(r"<[^>]+>", " ", built.read_text(encoding="utf-8").partition("<article")[2])
        assert len(text.split()) > 60, f"{page} says hardly anything"


def test_the_reference_is_made_from_docstrings(site: Path) -> None:
    text = (site / "api" / "index.html").read_text(encoding="utf-8")
    assert "Inner and outer parameters" in text
    for name in set(fewtask.__all__) - {"__version__"}:
        assert re.search(rf'id="fewtask\.[\w.]*\b{name}"', text), f"docs/api.md lacks {name}"


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        loaded = re.findall(
            r'<(?:script|img|link)[^>]+(?:src|href)="(https?://[^"]+)"', page.read_text(encoding="utf-8")
        )
        assert not [address for address in loaded if "canonical" not in address], page
