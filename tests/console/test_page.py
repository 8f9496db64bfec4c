"""The page in a real Chromium on a run without Spark: what it shows of statistics that a small pipeline never has."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from browser import Overheard, chromium, opened_browser
from fake_run import FakeRun
from playwright.sync_api import Browser, Page, expect

from headrace.console.service import Service
from headrace.console.serving import WebServer, address_of, bound_socket
from headrace.console.web import web_app

pytestmark = pytest.mark.skipif(chromium() is None, reason="there is no Chromium: apt-get install chromium")


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    service = Service(FakeRun(tmp_path_factory.mktemp("out")))
    taken = bound_socket("127.0.0.1", 0)
    with WebServer(web_app(service), taken):
        service.start()
        yield address_of(taken)
        service.close()
    service.release()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with opened_browser() as one:
        yield one


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    overheard = Overheard(page)
    yield page
    page.close()
    assert overheard.complaints == []


def test_overload_and_freshness_have_a_card(page: Page, address: str) -> None:
    page.goto(f"{address}/#/runtime")
    card = page.get_by_role("region", name="Overload and freshness")
    expect(card).to_be_visible()
    first, other = card.locator(".tree").all()
    expect(first.locator("h3")).to_have_text("((a b) c) by jaqpot")
    for text in ("50/s of about 200/s (25%)", "10% of 300/s", "4,000", "7, and 5 let go for their age"):
        expect(first).to_contain_text(text)
    alarms = first.locator(".alarm")
    expect(alarms).to_have_text(["infeasible: state a b: tuples of a stay for 40 s, fresh for 30 s", "4,000", "2"])
    assert alarms.first.evaluate("one => getComputedStyle(one).color") != card.evaluate(
        "one => getComputedStyle(one).color"
    )
    head = ["half-way join", "offered", "allowed", "probed", "found", "stale"]
    assert first.locator("thead th").all_inner_texts() == head
    assert first.locator("tbody tr").first.locator("th, td").all_inner_texts() == [
        "a into b", "1,200", "311", "300", "250", "4",
    ]  # fmt: skip
    expect(other).to_contain_text("no limit")
    assert other.locator("tbody td").all_inner_texts() == ["80", "all", "80", "9", "0"]
    expect(other.locator(".alarm")).to_have_count(0)


def test_no_view_shows_a_thing_as_an_object(page: Page, address: str) -> None:
    for view in ("plan", "queries/near", "sql", "runtime"):
        page.goto(f"{address}/#/{view}")
        expect(page.locator("main .card").first).to_be_visible()
        shown = page.locator("main").inner_text()
        for wrong in ("[object", "undefined", "NaN"):
            assert wrong not in shown, view
