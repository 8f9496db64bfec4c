"""The documentation agrees with the code and with itself: settings, links between pages, no paths of one machine."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.config import Settings, describe
from headrace.sql import read_script

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/**/*.md")])

CODE = re.compile(r"^(```|~~~).*?^\1|`[^`\n]*`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(<?([^)\s>]+)>?[^)]*\)")
HEADING = re.compile(r"^#+ +(.+?) *#*$", re.MULTILINE)
LOCAL_PATH = re.compile(r"(?<![\w.])/(?:home|root|Users|mnt|media|opt|srv|work|workspace)/[\w.-]+|\b[A-Z]:\\\w|file://")


def links(text: str) -> Iterator[tuple[str, str]]:
    """(page, anchor) of every link that stays inside the repository; either may be empty."""
    for target in LINK.findall(CODE.sub("", text)):
        if not re.match(r"[a-z]+:", target):
            page, _, anchor = target.partition("#")
            yield page, anchor


def anchors(text: str) -> set[str]:
    """The names a page's headings can be linked by, as GitHub and GitLab form them."""
    titles = HEADING.findall(re.sub(r"^(```|~~~).*?^\1", "", text, flags=re.MULTILINE | re.DOTALL))
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def broken_links(page: Path, text: str) -> Iterator[str]:
    for name, anchor in links(text):
        target = page.parent / name if name else page
        if not target.exists():
            yield f"{name}: there is no such file"
        elif anchor and target.suffix == ".md" and anchor not in anchors(target.read_text()):
            yield f"{name}#{anchor}: there is no such heading"


def test_settings_page_is_generated_from_the_code() -> None:
    assert (ROOT / "docs" / "settings.md").read_text() == describe(), "run make docs"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert list(broken_links(page, page.read_text())) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_path_of_one_machine(page: Path) -> None:
    assert LOCAL_PATH.findall(page.read_text()) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_settings_are_written_as_they_are_read(page: Path) -> None:
    text = page.read_text()
    for name, value in re.findall(r"\bSET (\w+) = ('[^'\n]*'|[\w.]+)", text):
        if name != "name" and "..." not in value:
            Settings().with_text(name, value.strip("'"))
    assert set(re.findall(r"`SET (\w+)`", text)) <= set(Settings.names())


@pytest.mark.parametrize("name", ["README.md", *(f"docs/{one}.md" for one in ("index", "kafka", "ordering"))])
def test_programs_are_read(name: str) -> None:
    blocks = re.findall(r"^```sql\n(.*?)^```", (ROOT / name).read_text(), re.MULTILINE | re.DOTALL)
    assert read_script(";\n".join(block.rstrip().rstrip(";") for block in blocks)).catalog.streams


def test_the_comparison_has_the_figures_of_the_readme() -> None:
    said = re.search(
        r"had ([\d.]+) times the throughput,\s+with ([\d.]+) of the memory",
        (ROOT / "docs" / "comparison.md").read_text(),
    )
    assert said is not None
    assert f"{said[1]} times, {said[2]} of the memory" in (ROOT / "README.md").read_text()


def test_the_checks_find_what_they_look_for(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    text = "# One `two`, three\n[a](#one-two-three) [b](#four) [c](gone.md) [d](https://example.org/x) `[e](gone.md)`\n"
    page.write_text(text)
    assert list(broken_links(page, text)) == ["#four: there is no such heading", "gone.md: there is no such file"]
    assert LOCAL_PATH.findall("see /home/ann/data, not https://example.org/home/ann or out/home/x") == ["/home/ann"]
