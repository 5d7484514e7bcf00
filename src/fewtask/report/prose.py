"""Hand-written Markdown as HTML: headings, paragraphs, lists, strong words and code; everything else is text."""

from __future__ import annotations

import re
from html import escape


def html(text: str) -> str:
    """Blocks are divided by empty lines; a list's entries start with a dash, and indented lines go on."""
    parts = []
    for block in re.split(r"\n\s*\n", text.strip()):
        if block.startswith("#"):
            heading, _, rest = block.partition("\n")
            parts.append(f"<h4>{inline(heading.lstrip('# '))}</h4>")
            block = rest
        if block.startswith("- "):
            entries = re.split(r"^- ", block, flags=re.M)[1:]
            parts.append("<ul>" + "".join(f"<li>{inline(' '.join(e.split()))}</li>" for e in entries) + "</ul>")
        elif block.strip():
            parts.append(f"<p>{inline(' '.join(block.split()))}</p>")
    return "\n".join(parts)


def inline(text: str) -> str:
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text, quote=False))
    return re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", text)
