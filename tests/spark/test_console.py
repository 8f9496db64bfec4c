"""The console in a real Chromium, on a real pipeline: SQL is typed, a query comes, its rows flow, it goes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from browser import Overheard, chromium, keep_screenshot, opened_browser
from playwright.sync_api import Browser, Page, expect
from pyspark.sql import SparkSession

from headrace import Engine
from headrace.console.service import Service
from headrace.console.serving import WebServer, address_of, bound_socket
from headrace.console.web import web_app

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(chromium() is None, reason="there is no Chromium: apt-get install chromium"),
]

MADE_UP = (
    "connector = 'generator', time = 'ts', rate = '40', keys = '10', low = '0', high = '100', history = '10 seconds'"
)
PROGRAM = f"""
SET shards = 2; SET trigger = '500 ms';
CREATE STREAM temperature (location_id BIGINT, value DOUBLE, ts TIMESTAMP) WITH ({MADE_UP});
CREATE STREAM humidity (location_id BIGINT, value DOUBLE, ts TIMESTAMP) WITH ({MADE_UP}, seed = '2');
CREATE QUERY near AS SELECT a.location_id, a.value AS celsius, b.value AS percent FROM temperature a, humidity b
  WHERE a.location_id = b.location_id WINDOW 2 SECONDS;
CREATE QUERY wide AS SELECT a.location_id, a.value AS celsius, b.value AS percent FROM temperature a, humidity b
  WHERE a.location_id = b.location_id AND a.value > 60 WINDOW 10 SECONDS;
CREATE QUERY dry AS SELECT location_id, value FROM humidity WHERE value < 20;
"""
WRONG = """CREATE QUERY typed AS
SELECT a.location_id, a.valeu AS celsius
FROM temperature a, humidity b
WHERE a.location_id = b.location_id
WINDOW 5 SECONDS"""
PATIENCE_MS = 90_000
"""For what a micro-batch has to bring about."""
VIEWS = ("plan", "queries/near", "sql", "runtime")


@pytest.fixture(scope="module")
def address(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    engine = Engine(spark)
    engine.sql(PROGRAM)
    run = engine.start(tmp_path_factory.mktemp("served") / "out")
    service = Service(run)
    taken = bound_socket("127.0.0.1", 0)
    try:
        with WebServer(web_app(service), taken):
            service.start()
            yield address_of(taken)
            service.close()
        service.release()
    finally:
        run.stop()


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
    assert {host.split(":")[0] for host in overheard.hosts} <= {"127.0.0.1"}


def test_a_query_is_typed_comes_flows_and_goes(page: Page, address: str) -> None:
    page.goto(address)
    expect(page.locator("svg.plan [data-query=near]")).to_be_visible(timeout=PATIENCE_MS)
    page.get_by_role("link", name="SQL", exact=True).click()

    page.locator("#sql").press_sequentially(WRONG)
    problem = page.locator("#sql-problem")
    expect(problem).to_contain_text("has no column valeu")
    expect(problem).to_contain_text("did you mean value?")
    assert page.locator(".copy .wrong").all_inner_texts() == ["valeu"]
    word, message = page.locator(".copy .wrong").bounding_box(), problem.bounding_box()
    assert word is not None
    assert message is not None
    assert word["y"] + word["height"] <= message["y"] < word["y"] + 2 * word["height"] + 10
    assert message["x"] <= word["x"] <= message["x"] + message["width"]
    expect(page.get_by_role("button", name="Add query")).to_be_disabled()
    keep_screenshot(page, "sql-error")

    page.locator("#sql").fill(WRONG.replace("valeu", "value"))
    expect(page.locator("#verdict")).to_have_text("Ready: adds typed.")
    expect(problem).to_be_hidden()
    page.get_by_role("button", name="Explain").click()
    expect(page.locator(".explained")).to_contain_text("typed (5 seconds)")
    page.locator("#sql").press("Control+Enter")

    node = page.locator("svg.plan [data-query=typed]")
    expect(node).to_be_visible(timeout=PATIENCE_MS)
    expect(page.locator("svg.plan .band text").nth(1)).to_have_text("2 s – 5 s")
    node.hover()
    expect(page.locator("svg.plan .band.read")).to_have_count(2)  # it reads the bands up to its window
    keep_screenshot(page, "plan")

    node.click()
    rows = page.locator(".tail tbody tr")
    expect(rows.nth(20)).to_be_visible(timeout=PATIENCE_MS)
    newest = int(rows.first.locator("td").first.inner_text())
    page.wait_for_function(
        "before => Number(document.querySelector('.tail tbody td').textContent) > before",
        arg=newest,
        timeout=PATIENCE_MS,
    )
    assert page.locator(".tail thead th").all_inner_texts() == ["batch", "location_id", "celsius"]
    keep_screenshot(page, "query")

    row = page.locator("table.queries tr", has_text="typed")
    row.get_by_role("button", name="pause typed").click()
    expect(row).to_contain_text("paused", timeout=PATIENCE_MS)
    row.get_by_role("button", name="resume typed").click()
    expect(row).not_to_contain_text("paused", timeout=PATIENCE_MS)
    row.get_by_role("button", name="drop typed").click()
    page.get_by_role("button", name="Drop", exact=True).last.click()
    expect(row).to_have_count(0, timeout=PATIENCE_MS)
    page.get_by_role("link", name="Plan", exact=True).click()
    expect(page.locator("svg.plan [data-query=near]")).to_be_visible()
    expect(node).to_have_count(0)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_view_fits_a_small_screen_in_both_themes(browser: Browser, address: str, theme: str) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 844}, color_scheme=theme)
    for view in VIEWS:
        page.goto(f"{address}/#/{view}")
        expect(page.locator("main .card").first).to_be_visible(timeout=PATIENCE_MS)
        page.wait_for_timeout(300)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, view
        keep_screenshot(page, f"phone-{theme}-{view.split('/')[0]}")
    page.close()


def test_the_keyboard_reaches_everything(page: Page, address: str) -> None:
    page.goto(address)
    expect(page.locator("svg.plan [data-query=near]")).to_be_visible(timeout=PATIENCE_MS)
    reached = []
    for _ in range(14):
        page.keyboard.press("Tab")
        reached.append(
            page.evaluate("document.activeElement.dataset.query || document.activeElement.textContent.trim()")
        )
    for name in ("Skip to content", "Plan", "Queries", "SQL", "Runtime", "near", "wide", "dry"):
        assert name in reached, reached
    page.locator("nav a", has_text="Queries").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="pause near")).to_be_visible()
    page.get_by_role("button", name="drop near").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    expect(page.locator("table.queries tr", has_text="near")).to_have_count(1)
