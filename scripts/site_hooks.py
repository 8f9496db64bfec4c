"""What the web site does to a page: links to source files, which are not on it, become plain text."""

from __future__ import annotations

import re
from typing import Any

OUTSIDE = re.compile(r"\[([^\]]+)\]\((?:\.\./)+(?:src|tests|benchmarks|deploy|scripts|[A-Z]+\.md)[^)]*\)")


def on_page_markdown(markdown: str, **_: Any) -> str:
    return OUTSIDE.sub(r"\1", markdown)
