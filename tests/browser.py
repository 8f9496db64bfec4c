"""A real Chromium, driven by Playwright: found on this machine, without the internet, and tidy about what it shows."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
"""``--no-sandbox``: as root Chromium does not start otherwise. The others keep it from asking anything of the world."""
ARTIFACTS = Path(__file__).parents[1] / "out" / "console"
"""Where screenshots are kept."""


def chromium() -> str | None:
    """Where Chromium is, if it is there."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


@contextmanager
def opened_browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=list(ARGUMENTS))
        yield browser
        browser.close()


def keep_screenshot(page: Page, name: str) -> None:
    ARTIFACTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=ARTIFACTS / f"{name}.png")


class Overheard:
    """What a page complained of, and whom it asked."""

    def __init__(self, page: Page) -> None:
        self.complaints: list[str] = []
        self.hosts: set[str] = set()
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", lambda told: self.complaints.append(told.text) if told.type == "error" else None)
        page.on("request", lambda asked: self.hosts.add(asked.url.split("/")[2]))
