"""The page in a real Chromium on a run without Spark: what it shows of statistics that a small pipeline never has."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from urllib.parse import quote

import pyarrow.parquet as pq
import pytest
from browser import Overheard, chromium, opened_browser
from fake_run import FakeRun
from playwright.sync_api import Browser, Locator, Page, Route, expect

from headrace.console.service import Service
from headrace.console.serving import WebServer, address_of, bound_socket
from headrace.console.web import web_app
from headrace.spark.staging import BATCH_COLUMN, batch_name

pytestmark = pytest.mark.skipif(chromium() is None, reason="there is no Chromium: apt-get install chromium")
VIEWS = ("plan", "queries/near", "sql", "runtime")

BRIGHTNESS = """(one, name) => {
  const [red, green, blue] = getComputedStyle(one)[name].match(/[\\d.]+/g).map(Number);
  return 0.299 * red + 0.587 * green + 0.114 * blue;
}"""
"""Of a colour of an element, from 0 to 255."""

LISTEN = """() => {
  const told = (one) => [one.tagName, one.id, one.getAttribute("aria-label"), one.dataset.query, one.dataset.action,
    one.textContent.trim().slice(0, 40)].join(" ");
  const shown = (one) => one.getClientRects().length > 0 && !one.closest("dialog:not([open])");
  const all = (what) => [...document.querySelectorAll(what)].filter(shown);
  window.reached = [];
  document.addEventListener("focusin", (event) => window.reached.push(told(event.target)));
  window.wanted = () => all("a[href], button:not(:disabled), textarea, [data-action]:not(:disabled)").map(told);
  window.scrolling = () => all("main *").filter((one) => {
    const { overflowX, overflowY } = getComputedStyle(one);
    const moves = (how, size, room) => (how === "auto" || how === "scroll") && size > room + 1;
    return (moves(overflowX, one.scrollWidth, one.clientWidth) || moves(overflowY, one.scrollHeight, one.clientHeight))
      && one.getAttribute("tabindex") !== "0" && !one.querySelector("a[href], button, textarea, [tabindex='0']");
  }).map(told);
}"""
"""Notes what the keyboard reaches; what it should reach; and what scrolls, but cannot have the focus."""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Service:
    return Service(FakeRun(tmp_path_factory.mktemp("out")))


@pytest.fixture(scope="module")
def address(service: Service) -> Iterator[str]:
    taken = bound_socket("127.0.0.1", 0)
    with WebServer(web_app(service), taken):
        yield address_of(taken)
        service.closing.set()
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


def opened(page: Page, address: str, view: str) -> Locator:
    """What a view shows, once it does."""
    page.goto(f"{address}/#/{view}")
    expect(page.locator("main .card").first).to_be_visible()
    return page.locator("main")


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
    for view in VIEWS:
        shown = opened(page, address, view).inner_text()
        for wrong in ("[object", "undefined", "NaN"):
            assert wrong not in shown, view


@pytest.mark.parametrize(("theme", "is_dark"), [("light", False), ("dark", True)])
def test_every_view_fits_a_phone_and_is_in_the_systems_theme(
    browser: Browser, address: str, theme: str, is_dark: bool
) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 844}, color_scheme=theme)
    for view in VIEWS:
        opened(page, address, view)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, view
        ground, ink = (page.locator("body").evaluate(BRIGHTNESS, name) for name in ("backgroundColor", "color"))
        assert (ground < ink) == is_dark, view
        assert abs(ground - ink) > 150, view
        for link in page.locator("nav a").all():
            box = link.bounding_box()
            assert box is not None
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= 390
    page.close()


def test_the_theme_is_switched_and_remembered(browser: Browser, address: str) -> None:
    page = browser.new_page(color_scheme="light")
    opened(page, address, "plan")
    for is_dark in (True, False):
        page.locator("#theme").press("Enter")
        for _ in range(2):
            assert (page.locator("body").evaluate(BRIGHTNESS, "backgroundColor") < 128) == is_dark
            page.reload()
    page.close()


@pytest.mark.parametrize("view", VIEWS)
def test_the_keyboard_reaches_whatever_can_be_done_or_scrolled(browser: Browser, address: str, view: str) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 844})
    opened(page, address, view)
    page.evaluate(LISTEN)
    wanted, scrolling = page.evaluate("[window.wanted(), window.scrolling()]")
    assert scrolling == [], "these scroll, but not by the keyboard"
    for _ in range(len(wanted) + 5):
        page.keyboard.press("Tab")
    reached = page.evaluate("window.reached")
    assert [one for one in wanted if one not in reached] == []
    page.close()


def test_the_keyboard_goes_on_where_it_was(page: Page, address: str, service: Service) -> None:
    """Also where a button may not be pressed for a while, and where what had the focus goes away."""
    service.run.add("CREATE QUERY away AS SELECT location_id FROM humidity")
    opened(page, address, "queries")
    row = page.locator("tr[data-key=away]")
    for word, other in (("pause", "resume"), ("resume", "pause")):
        row.get_by_label(f"{word} away").press("Enter")
        expect(row.get_by_label(f"{other} away")).to_be_focused()
        expect(row.get_by_label(f"{other} away")).to_be_enabled()
    row.get_by_label("drop away").press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Enter")
    expect(row).to_have_count(0)
    expect(page.locator("main")).to_be_focused()
    opened(page, address, "plan")
    page.locator("[data-query=wide].node").press("Enter")
    expect(page.locator("#detail-title")).to_have_text("wide")
    expect(page.locator("main")).to_be_focused()


def test_skipping_to_the_content_stays_in_the_view(page: Page, address: str) -> None:
    opened(page, address, "runtime")
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    assert page.url.endswith("#/runtime")
    expect(page.get_by_role("region", name="Streams")).to_be_visible()


def test_the_arrows_go_through_a_chart(page: Page, address: str, service: Service) -> None:
    for second in (0, 1, 100_000):  # the machine slept in between
        service.take_sample(1_700_000_000.0 + second)
    opened(page, address, "plan")
    chart = page.locator("[data-chart=results]")
    chart.focus()
    tip = chart.locator(".tip")
    expect(tip).to_contain_text("near")
    for key, at_s in (("Home", 1_700_000_000), ("ArrowRight", 1_700_000_001), ("ArrowLeft", 1_700_000_000)):
        page.keyboard.press(key)
        clock = page.evaluate("at => new Date(at * 1000).toLocaleTimeString('en-GB')", at_s)
        expect(tip.locator("b")).to_have_text(clock)
    page.keyboard.press("Tab")
    expect(tip).to_be_hidden()


def test_a_late_answer_about_an_older_text_is_not_taken_for_the_newer_ones(page: Page, address: str) -> None:
    """The first check is answered only after more was typed."""
    held: list[Route] = []
    page.route("**/api/check", lambda route: route.continue_() if held else held.append(route))
    opened(page, address, "sql")
    page.locator("#sql").fill("CREATE QUERY late AS SELECT location_id FROM humidity")
    page.wait_for_function("() => document.querySelector('#verdict').textContent === 'Checking ...'")
    while not held:
        page.wait_for_timeout(20)
    page.locator("#sql").fill("CREATE QUERY late AS SELECT place FROM humidity")
    held[0].continue_()
    expect(page.locator("#sql-problem")).to_contain_text("there is no column place")
    assert page.locator(".copy .wrong").all_inner_texts() == ["place"]
    expect(page.get_by_role("button", name="Add query")).to_be_disabled()


def test_what_is_typed_while_a_query_is_added_stays(page: Page, many: tuple[str, Service]) -> None:
    held: list[Route] = []
    page.route("**/api/queries", lambda one: one.continue_() if one.request.method == "GET" else held.append(one))
    opened(page, many[0], "sql")
    page.locator("#sql").fill("CREATE QUERY typed AS SELECT location_id FROM humidity")
    expect(page.locator("#verdict")).to_have_text("Ready: adds typed.")
    page.locator("#sql").press("Control+Enter")
    while not held:
        page.wait_for_timeout(20)
    later = "CREATE QUERY later AS SELECT location_id FROM temperature"
    page.locator("#sql").fill(later)
    held[0].continue_()
    expect(page.locator("#toasts")).to_contain_text("typed runs")
    expect(page.locator("#verdict")).to_have_text("Ready: adds later.")
    expect(page.locator("#sql")).to_have_value(later)


def test_numbers_of_rows_are_shown_as_they_are(page: Page, address: str, service: Service) -> None:
    service.run.publish({"wide": [(2**63 - 1, 0.0000125), (-(2**53) - 1, 21.123456)]})
    opened(page, address, "queries/wide")
    rows = page.locator(".tail tbody tr")
    expect(rows).to_have_count(2)
    service.run.publish({"wide": [(2**53 + 1, 1e300)]})
    expect(rows).to_have_count(3)
    shown = [row.locator("td.num").all_inner_texts() for row in rows.all()]
    assert [one[1:] for one in shown] == [
        ["9007199254740993", "1e+300"], ["-9007199254740993", "21.1235"], ["9223372036854775807", "0.0000125"],
    ]  # fmt: skip


def test_rows_of_an_earlier_query_with_other_columns_are_not_shown_under_those_of_now(
    page: Page, address: str, service: Service
) -> None:
    sql = "CREATE QUERY again AS SELECT location_id{} FROM humidity"
    service.run.add(sql.format(", value AS celsius"))
    service.run.publish({"again": [(1, 30.0), (2, 31.0)]})
    service.run.drop("again")
    service.run.add(sql.format(""))
    service.run.publish({"again": [(3, 0.0)]})
    (newest,) = (service.run.out / "again").glob(f"{BATCH_COLUMN}={batch_name(service.run.last_batch)}/*")
    pq.write_table(pq.read_table(newest, columns=["location_id"], partitioning=None), newest)
    opened(page, address, "queries/again")
    expect(page.locator(".tail thead th")).to_have_text(["batch", "location_id"])
    expect(page.locator(".tail tbody tr")).to_have_count(1)
    service.run.drop("again")


def test_tables_of_the_runtime_are_whole_where_there_is_room(page: Page, address: str) -> None:
    opened(page, address, "runtime")
    behind_a_bar = page.locator(".scroll").evaluate_all(
        "all => all.filter((one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.getAttribute('aria-label'))"
    )
    assert behind_a_bar == []


def test_long_texts_do_not_push_the_numbers_beside_them_out_of_sight(
    page: Page, address: str, service: Service
) -> None:
    before = service.run.stats
    graph, tree = before().graph, before().trees[0]
    assert graph is not None
    text = "where (humidity.value > 70.0) -> " + ", ".join(
        f"temperature.column_{number} AS c{number}" for number in range(30)
    )
    half = replace(tree.halves[0], name="temperature, humidity and pressure with S(another_stream of another_one)")
    stats = replace(
        before(), trees=(replace(tree, halves=(half,)),),
        graph=replace(graph, operators=(replace(graph.operators[0], text=text),)),
    )  # fmt: skip
    page.route("**/api/stats", lambda route: route.fulfill(json=asdict(stats)))
    page.route("**/api/stats/stream", lambda route: route.fulfill(content_type="text/event-stream", body=""))
    test_tables_of_the_runtime_are_whole_where_there_is_room(page, address)


def test_windows_of_several_joins_stand_under_the_name_of_theirs(page: Page, address: str, service: Service) -> None:
    service.run.add(
        "CREATE QUERY other AS SELECT a.value FROM temperature a, humidity b WHERE a.value < b.value WINDOW 5 SECONDS"
    )
    service.take_sample(time.time())
    opened(page, address, "runtime")
    card = page.get_by_role("region", name="Backlog of each window")
    groups = list(dict.fromkeys(one.group for one in service.stats.windows))
    assert len(groups) == 2
    expect(card.get_by_role("heading", level=3)).to_have_text(groups)
    service.run.drop("other")
    service.take_sample(time.time())


MANY = ";".join(
    f"CREATE QUERY many_{number:02d} AS SELECT a.location_id FROM temperature a, humidity b "
    f"WHERE a.location_id = b.location_id AND a.value > {number} WINDOW {1 + number % 5} SECONDS"
    for number in range(50)
)


@pytest.fixture
def many(tmp_path: Path) -> Iterator[tuple[str, Service]]:
    """A service of 53 queries, one of them paused; every eighth has the most results."""
    run = FakeRun(tmp_path)
    run.rates = {f"many_{number:02d}": 1000.0 for number in range(0, 50, 8)}
    service = Service(run)
    service.add(MANY)
    service.pause("many_07")
    for second in range(3):
        service.take_sample(1_700_000_000.0 + second)
    taken = bound_socket("127.0.0.1", 0)
    with WebServer(web_app(service), taken):
        yield address_of(taken), service
        service.closing.set()
    service.release()


def test_of_many_queries_each_curve_has_a_colour_of_its_own_and_both_charts_show_the_same(
    page: Page, many: tuple[str, Service]
) -> None:
    opened(page, many[0], "plan")
    legends = [
        [(one.inner_text(), one.locator(".dot").get_attribute("class")) for one in legend.locator("a").all()]
        for legend in page.locator(".legend").all()
    ]
    first, other = legends
    assert first == other
    assert len({colour for _, colour in first}) == len(first) == 8


def test_many_queries_are_found_by_name(page: Page, many: tuple[str, Service]) -> None:
    opened(page, many[0], "queries")
    rows = page.locator("table.queries tbody tr")
    expect(rows).to_have_count(53)
    page.get_by_role("searchbox").fill("MANY_1")
    expect(rows).to_have_count(10)
    paused = page.get_by_role("row", name="many_07")
    page.get_by_role("searchbox").fill("_07")
    expect(paused).to_contain_text("3 seconds")


def test_a_change_of_many_queries_is_told_in_a_line(page: Page, many: tuple[str, Service]) -> None:
    opened(page, many[0], "runtime")
    card = page.get_by_role("region", name="Decisions and changes")
    expect(card).to_contain_text("add many_00, many_01, many_02 and 47 more")
    expect(card).to_contain_text("Filter-Order from now on")


def test_a_burst_does_not_flatten_the_rates_of_all_other_times(page: Page, address: str, service: Service) -> None:
    def height() -> float:
        """How far the last part of a curve is above the axis, in parts of the chart."""
        found = page.evaluate("""() => {
          const path = document.querySelector('[data-chart=results] path.line').getAttribute('d');
          const last = Number(path.match(/[\\d.]+$/)[0]);
          return (178 - last) / 168;
        }""")
        return float(found)

    before = service.run.stats
    burst = replace(before(), queries=tuple(replace(one, results_per_s=50_000.0) for one in before().queries))
    for second, stats in enumerate((burst, *(before() for _ in range(9)))):
        service.timeline.add(1_800_000_000.0 + second, stats)
    opened(page, address, "plan")
    expect(page.get_by_role("region", name="Results per second")).to_contain_text("logarithmic")
    assert height() > 0.1


def test_curves_go_on_by_the_clock_of_the_service(browser: Browser, tmp_path: Path) -> None:
    """This machine's is ten minutes behind."""
    service = Service(FakeRun(tmp_path))
    for second in range(30):
        service.take_sample(time.time() - 30 + second)
    page = browser.new_page()
    page.add_init_script("const now = Date.now; Date.now = () => now() - 600_000;")
    taken = bound_socket("127.0.0.1", 0)
    with WebServer(web_app(service), taken):
        service.start()
        opened(page, address_of(taken), "plan")
        page.wait_for_timeout(2500)  # some looks are added to what came at first
        curve = page.locator("[data-chart=results] path.line").first.get_attribute("d") or ""
        places = [float(one) for one in re.findall(r"[ML](-?[\d.]+) ", curve)]
        page.close()
        service.close()
    service.release()
    assert len(places) > 30
    assert places == sorted(places)


def test_in_order_execution_has_a_card(page: Page, address: str) -> None:
    page.goto(f"{address}/#/runtime")
    card = page.get_by_role("region", name="In-order execution")
    for text in ("filter-order", "humidity", "120, 4 KiB", "240 ms", "42 ms", "32 ms"):
        expect(card).to_contain_text(text)


def test_a_run_that_has_ended_and_a_service_that_is_gone_are_said_on_a_phone_too(
    browser: Browser, tmp_path: Path
) -> None:
    run = FakeRun(tmp_path)
    service = Service(run)
    page = browser.new_page(viewport={"width": 390, "height": 844})
    taken = bound_socket("127.0.0.1", 0)
    with WebServer(web_app(service), taken):
        service.start()
        run.is_active = False
        opened(page, address_of(taken), "plan")
        expect(page.locator("#notice")).to_contain_text("The pipeline has ended")
        expect(page.locator("#status")).to_contain_text("ended")
        service.close()
    expect(page.locator("#notice")).to_contain_text("There is no connection to the service")
    expect(page.locator("#status")).to_contain_text("no connection")
    service.release()
    page.close()


def test_a_wrong_token_is_said_to_be_wrong(browser: Browser, tmp_path: Path) -> None:
    service = Service(FakeRun(tmp_path))
    page = browser.new_page()
    taken = bound_socket("127.0.0.1", 0)
    with WebServer(web_app(service, "0123456789abcdef"), taken):
        page.goto(address_of(taken))
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("This service asks for a token")
        for wrong in ("another-token-it-is", "в-заголовке-ему-не-быть"):
            page.keyboard.type(wrong)
            page.keyboard.press("Enter")
            expect(dialog).to_contain_text("That token is not the one")
            expect(page.get_by_label("Token", exact=True)).to_have_value("")
        page.keyboard.type("0123456789abcdef")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="Shared plan")).to_be_visible()
        page.close()
        service.closing.set()
    service.release()


def test_escape_takes_the_message_off_the_lines_under_it(page: Page, address: str) -> None:
    opened(page, address, "sql")
    page.locator("#sql").fill("CREATE QUERY late AS\nSELECT location_id,\n  place\nFROM humidity\nWHERE value > 1;")
    problem = page.locator("#sql-problem")
    expect(problem).to_contain_text("there is no column place")
    assert page.locator(".copy .wrong").all_inner_texts() == ["place"]
    word, told = page.locator(".copy .wrong").bounding_box(), problem.bounding_box()
    assert word is not None
    assert told is not None
    assert 0 < told["y"] - (word["y"] + word["height"]) < 20
    page.keyboard.press("Escape")
    expect(problem).to_be_hidden()
    expect(page.locator("#verdict")).to_contain_text("there is no column place")


def test_names_and_addresses_are_text_whatever_is_in_them(browser: Browser, address: str) -> None:
    page = browser.new_page()
    name = "<img src=x onerror=alert(1)>"
    expect(opened(page, address, f"queries/{quote(name)}")).to_contain_text(f"There is no query {name}.")
    expect(page.locator("main img")).to_have_count(0)
    page.close()
    page = browser.new_page()
    expect(opened(page, address, "queries/100%")).to_contain_text("There is no query 100%.")
    page.close()
