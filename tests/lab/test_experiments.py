"""All experiments by the model clock, quick: the papers' claims as assertions, and the report that is made of them."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from xml.etree import ElementTree

import pytest
from browser import Overheard, chromium, opened_browser
from playwright.sync_api import Page
from rich.console import Console
from typer.testing import CliRunner

from headrace.cli import app
from headrace.errors import SettingError, SourceError
from headrace.lab import ordering_by_clock, running, storing, window_runs
from headrace.lab.catalogue import EXPERIMENTS
from headrace.lab.departures import DEPARTURES
from headrace.lab.drawing import draw
from headrace.lab.experiment import (
    PAPERS,
    Chart,
    Claim,
    Clock,
    Experiment,
    Grid,
    Ground,
    Kind,
    Line,
    Setup,
    Size,
    rounded,
)
from headrace.lab.report import html_page, markdown
from headrace.lab.running import experiment_named, is_as_known, report_stored, run_all, run_one
from headrace.lab.storing import Result, read_result, result_of, write_result
from headrace.lab.window_runs import ModelClock, Setting, recorded, run_policy

KNOWN = "the greatest gain is from nested loops to two buckets"
CUT_OFF = """() => [...document.querySelectorAll('figure svg')].flatMap(svg => {
  const whole = svg.getBoundingClientRect();
  return [...svg.querySelectorAll('text')].filter(text => {
    const box = text.getBoundingClientRect();
    return box.left < whole.left - 1 || box.right > whole.right + 1 || box.bottom > whole.bottom + 1;
  }).map(text => text.textContent); })"""
"""Labels that reach out of their figure."""
ACROSS = """() => [...document.querySelectorAll('figure svg')].flatMap(svg => {
  const texts = [...svg.querySelectorAll('text')].map(text => [text.textContent, text.getBoundingClientRect()]);
  return texts.flatMap(([name, box], at) => texts.slice(at + 1).filter(([, other]) =>
    Math.min(box.right, other.right) - Math.max(box.left, other.left) > 1 &&
    Math.min(box.bottom, other.bottom) - Math.max(box.top, other.top) > 1
  ).map(([other]) => [name, other])); })"""
"""Labels that are written over others."""
CHEAP = ("000-figure-2b", "001-figure-8", "002-table-3", "003-table-2", "004-figure-5")


def test_there_is_one_for_every_table_and_figure() -> None:
    numbers = {"000": ["2b", "3b", *"56789"], "001": ["8", "11", "12", "13"], "003": [*"234"],
               "004": ["5", "6", "7", "8", "9", "10"]}  # fmt: skip
    wanted = [f"{paper}-figure-{number}" for paper, figures in numbers.items() for number in figures]
    wanted += ["000-section-5.4", "001-infeasible", "003-table-2", "003-threshold"]
    wanted += ["000-figure-6-spark", "001-overload-spark"]
    wanted += ["002-figure-2", "002-figure-3", "002-figure-4a", "002-figure-4b"]
    wanted += [f"002-table-{number}" for number in (3, 5, 6, 7, 8)]
    assert set(wanted) <= set(EXPERIMENTS)
    assert {one.paper for one in EXPERIMENTS.values()} <= set(PAPERS)


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Result], Path]:
    """As ``headrace lab all --clock model --quick`` runs them: once, and everything is looked at."""
    out = tmp_path_factory.mktemp("lab")
    return run_all(Setup(), out, Console(file=io.StringIO())), out


@pytest.mark.xdist_group("lab")
def test_all_experiments_by_the_model_clock_and_their_report(everything: tuple[list[Result], Path]) -> None:
    results, out = everything
    claims_hold_but_those_that_are_known_not_to(results)
    report_has_every_experiment_and_no_broken_link(results, out)
    every_picture_is_sound_and_has_labels(results)
    report_is_made_of_what_is_stored_alone(results, out)


@pytest.mark.xdist_group("lab")
@pytest.mark.skipif(chromium() is None, reason="there is no Chromium: apt-get install chromium")
@pytest.mark.parametrize("width", [1280, 390])
def test_the_report_is_readable_on_a_laptop_and_a_phone(everything: tuple[list[Result], Path], width: int) -> None:
    results, out = everything
    with opened_page(out / "report.html", width) as page:
        report_fits_and_shows_every_picture(page, width, sum(len(result.pictures) for result in results))


@pytest.mark.skipif(chromium() is None, reason="there is no Chromium: apt-get install chromium")
def test_a_page_that_is_too_wide_or_has_a_broken_link_is_noticed(tmp_path: Path) -> None:
    file, link = tmp_path / "page.html", "<a href='#here' id='here'>x</a>"
    shown = "<figure><svg width='20' height='20'></svg></figure>"
    file.write_text(f"<!doctype html>{shown}{link}")
    with opened_page(file, 390) as page:
        report_fits_and_shows_every_picture(page, 390, 1)
        for pictures, body in (
            (1, f"{shown}<a href='#nowhere'>x</a>"),
            (1, f"{shown}{link}<p style='width: 2000px'>x</p>"),
            (1, f"<figure><svg><text y='20'>80,000</text><text x='9' y='20'>rate</text></svg></figure>{link}"),
            (2, f"{shown}{link}<figure hidden></figure>"),
            (2, f"{shown}{link}"),
        ):
            page.set_content(f"<!doctype html>{body}")
            with pytest.raises(AssertionError):
                report_fits_and_shows_every_picture(page, 390, pictures)


def claims_hold_but_those_that_are_known_not_to(results: list[Result]) -> None:
    missed = {(result.experiment.name, claim.says) for result in results for claim in result.claims if not claim.holds}
    assert missed == {(one.experiment, one.says) for one in DEPARTURES if (Clock.MODEL, Size.QUICK) in one.where}
    assert is_as_known(results)
    said = {(result.experiment.name, claim.says) for result in results for claim in result.claims}
    assert {
        (one.experiment, one.says) for one in DEPARTURES if Clock.MODEL in EXPERIMENTS[one.experiment].clocks
    } <= said


def report_has_every_experiment_and_no_broken_link(results: list[Result], out: Path) -> None:
    page = (out / "report.html").read_text(encoding="utf-8")
    ids = set(re.findall(r'id="([^"]+)"', page))
    assert {result.experiment.name for result in results} <= ids
    assert set(re.findall(r'href="#([^"]+)"', page)) <= ids
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "https://" not in page
    text = (out / "report.md").read_text(encoding="utf-8")
    pictures = re.findall(r"\]\((figures/[^)]+)\)", text)
    assert pictures
    assert all((out / picture).exists() for picture in pictures)


def every_picture_is_sound_and_has_labels(results: list[Result]) -> None:
    for result in results:
        assert result.pictures
        for picture in result.pictures:
            if isinstance(picture, Grid):
                assert all(len(row) == len(picture.head) for row in picture.rows)
                continue
            drawn = draw(picture)
            ElementTree.fromstring(drawn)
            assert "nan" not in drawn
            assert picture.y


def report_is_made_of_what_is_stored_alone(results: list[Result], out: Path) -> None:
    before = (out / "report.html").read_bytes()
    again = report_stored(out)
    assert [one.text() for one in again] == [one.text() for one in results]
    assert (out / "report.html").read_bytes() == before


@contextmanager
def opened_page(file: Path, width: int) -> Iterator[Page]:
    """In a real browser, which may not have anything to complain of."""
    with opened_browser() as browser:
        page = browser.new_page(viewport={"width": width, "height": 900})
        heard = Overheard(page)
        page.goto(file.as_uri())
        yield page
        assert heard.complaints == []


def report_fits_and_shows_every_picture(page: Page, width: int, pictures: int) -> None:
    boxes = page.eval_on_selector_all(
        "figure, figure svg", "all => all.map(one => one.getBoundingClientRect()).map(box => [box.width, box.height])"
    )
    assert page.locator("figure").count() == pictures
    assert all(min(box) > 0 for box in boxes)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(CUT_OFF) == []
    assert page.evaluate(ACROSS) == []
    targets = page.eval_on_selector_all('a[href^="#"]', "all => all.map(one => one.getAttribute('href').slice(1))")
    assert targets
    assert [one for one in targets if page.locator(f'[id="{one}"]').count() != 1] == []


# --- the same each time


def test_a_shard_under_the_model_clock_gives_the_same_each_time() -> None:
    setting = Setting((0.5, 2.0, 10.0), rate=50.0, keys=20, tuples=40, burst=3)
    rows = recorded(setting)
    runs = [run_policy(setting, rows, "mqt", ModelClock(setting, rows.times_s)) for _ in range(2)]
    assert runs[0] == runs[1]
    assert sum(one.results for one in runs[0].responses.values()) > 0


def test_a_turn_by_the_wall_clock_is_processor_time_without_what_the_processor_became_slower_by(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    measure = window_runs.Yardstick()
    monkeypatch.setattr(measure, "speed", lambda: 0.5)
    now_s = count(0, 3)
    monkeypatch.setattr(window_runs.time, "process_time", lambda: next(now_s))
    clock = window_runs.WallClock(Setting((1.0,)), [10.0], 4.0, measure)
    clock.charge(1)
    clock.end_turn()
    assert (clock.run.busy_s, clock.now_s, clock.run.turns) == (3 * 4.0 * 0.5, 16.0, 1)


def test_where_a_tuple_is_waited_for_the_processors_clock_is_put_forward(monkeypatch: pytest.MonkeyPatch) -> None:
    worked_s = [100.0]
    monkeypatch.setattr(ordering_by_clock.time, "process_time", lambda: worked_s[0])
    monkeypatch.setattr(ordering_by_clock.time, "sleep", lambda _: pytest.fail("it waits"))
    clock = ordering_by_clock.ProcessorTime()
    clock.begin()
    clock.wait_until(5.0)
    assert clock.now_s() == 5.0
    worked_s[0] += 2.0
    clock.wait_until(6.0)
    assert clock.now_s() == 7.0


def test_policies_find_the_same_results_in_the_same_work() -> None:
    setting = Setting((0.5, 2.0, 10.0), rate=50.0, keys=20, tuples=40, probe_share=0.0)
    rows = recorded(setting)
    runs = [run_policy(setting, rows, name, ModelClock(setting, rows.times_s)) for name in ("lwo", "swf", "mqt")]
    counts = [{query: one.results for query, one in run.responses.items()} for run in runs]
    assert counts[0] == counts[1] == counts[2]
    assert [run.busy_s for run in runs] == pytest.approx([runs[0].busy_s] * 3)


@pytest.mark.parametrize("name", CHEAP)
def test_an_experiment_is_stored_as_the_same_bytes(name: str, tmp_path: Path) -> None:
    files = [write_result(result_of(EXPERIMENTS[name], Setup()), tmp_path / part) for part in ("one", "other")]
    assert files[0].read_bytes() == files[1].read_bytes()
    read = read_result(EXPERIMENTS[name], tmp_path / "one")
    assert read is not None
    assert read.text().encode() == files[0].read_bytes()


def test_runs_write_the_same_bytes_however_long_they_take(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = [EXPERIMENTS[name] for name in CHEAP]
    for part, pace_s in (("one", 1), ("other", 77)):
        now_s = count(0, pace_s)
        monkeypatch.setattr(running.time, "monotonic", lambda now_s=now_s: next(now_s))
        run_all(Setup(), tmp_path / part, Console(file=io.StringIO()), chosen)
    files = {file.relative_to(tmp_path / "one") for file in (tmp_path / "one").rglob("*") if file.is_file()}
    assert {Path("report.html"), Path("report.md"), Path("run.json")} < files
    for file in files:
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "other" / file).read_bytes()


def test_a_run_in_pieces_keeps_what_is_stored_of_its_setup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    console = Console(file=io.StringIO())
    first, second = running.chosen_by(["001-figure-8"]), running.chosen_by(["001-figure-8", "002-table-3"])
    run_all(Setup(), tmp_path, console, first)
    measured: list[str] = []

    def counted(experiment: Experiment, setup: Setup) -> Result:
        measured.append(experiment.name)
        return result_of(experiment, setup)

    monkeypatch.setattr(running, "result_of", counted)
    assert [one.experiment.name for one in run_all(Setup(), tmp_path, console, second, is_resumed=True)] == [
        one.name for one in second
    ]
    assert measured == ["002-table-3"]
    run_all(Setup(seed=2), tmp_path, console, first, is_resumed=True)
    assert measured == ["002-table-3", "001-figure-8"]
    assert [one.name for one in running.chosen_by(["000-figure-6"])] == ["000-figure-6"]
    with pytest.raises(SettingError, match="begins with 009"):
        running.chosen_by(["009"])


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("001-infeasible", "Numbers: the formulas; model clock, quick, seed 5."),
        ("002-figure-4a", "Numbers: the formulas; model clock, quick, nothing is drawn."),
        ("002-figure-3", "Numbers: the formulas; model clock, quick, nothing is drawn."),
    ],
)
def test_a_report_says_where_its_numbers_come_from(name: str, told: str) -> None:
    result = result_of(EXPERIMENTS[name], Setup(seed=5))
    assert told in markdown([result], {})
    assert told in html_page([result], {})


def test_seeds_and_grounds_are_those_of_the_run() -> None:
    figure = EXPERIMENTS["003-figure-2"]
    assert figure.ground_by(Clock.MODEL) is Ground.SIMULATED
    assert figure.ground_by(Clock.WALL) is Ground.ENGINE
    assert list(figure.seeds(Setup(seed=3))) == [13, 14, 15, 16, 17]
    assert list(EXPERIMENTS["000-figure-5"].seeds(Setup(seed=3))) == [3, 4]
    assert list(EXPERIMENTS["000-figure-6-spark"].seeds(Setup(Clock.WALL, seed=3))) == [300, 301]


def test_results_of_another_version_are_refused(tmp_path: Path) -> None:
    file = write_result(result_of(EXPERIMENTS["001-figure-8"], Setup()), tmp_path)
    file.write_text(file.read_text().replace('"paths"', '"ways"'))
    with pytest.raises(SourceError, match=r"001-figure-8.json is not what this version stores"):
        read_result(EXPERIMENTS["001-figure-8"], tmp_path)


# --- what is asked for


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(SettingError, match="did you mean 000-figure-6"):
        experiment_named("000-figur-6")


def test_a_clock_that_an_experiment_has_not_is_refused(tmp_path: Path) -> None:
    only = [one.name for one in EXPERIMENTS.values() if Clock.MODEL not in one.clocks]
    for name in only:
        with pytest.raises(SettingError, match="--clock wall"):
            run_one(name, Setup(Clock.MODEL), tmp_path, Console(file=io.StringIO()))
    with pytest.raises(SettingError, match="none of them runs by the model clock"):
        run_all(Setup(Clock.MODEL), tmp_path, Console(file=io.StringIO()), [EXPERIMENTS[one] for one in only])


# --- claims and charts


def test_departures_are_of_experiments_that_run_there_and_have_one_reason_each() -> None:
    places = [(one.experiment, one.says, clock, size) for one in DEPARTURES for clock, size in one.where]
    assert len(set(places)) == len(places)
    assert all(clock in EXPERIMENTS[name].clocks for name, _, clock, _ in places)
    assert all(one.why for one in DEPARTURES)


def test_a_claim_that_is_missed_has_its_own_reason_before_that_of_the_clock() -> None:
    experiment = replace(
        EXPERIMENTS["002-figure-4a"],
        by_wall="slow",
        claims=lambda _: [Claim(says, "", "", False) for says in (KNOWN, "other")],
    )
    known, other = Result(experiment, Setup(Clock.WALL), {}).claims
    assert known.is_known
    assert "two buckets" in known.why
    assert (other.why, other.is_known) == ("slow", False)
    assert [one.why for one in Result(experiment, Setup(), {}).claims][1] == ""


def test_numbers_are_stored_with_the_digits_that_count() -> None:
    assert rounded({"a": [0.123456789, 1]}) == {"a": [0.123457, 1]}


@pytest.mark.parametrize("kind", list(Kind))
def test_charts_take_names_gaps_and_scales(kind: Kind) -> None:
    chart = Chart("a < b", "x", "y", [Line("LWO", ["p", "q"], [1.0, None]), Line("new", ["p", "q"], [2.0, 3.0])], kind)
    tree = ElementTree.fromstring(draw(chart))
    assert tree.attrib["aria-label"] == "a < b"
    lines = [Line("SWF", [0.001, 1, 1000], [1e-6, 1.0, 1e6])]
    ElementTree.fromstring(draw(Chart("log", "x", "y", lines, log_x=True, log_y=True)))


# --- commands


def test_a_claim_that_is_missed_and_not_known_is_an_exit_code(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(storing, "why_not", lambda *_: None)
    missed = CliRunner().invoke(app, ["lab", "run", "002-figure-4b"])
    assert missed.exit_code == 1
    assert "Not explained yet" in missed.output
    only = {"002-figure-4b": EXPERIMENTS["002-figure-4b"]}
    monkeypatch.setattr(running, "EXPERIMENTS", only)
    every = ["lab", "all", "--out", str(tmp_path)]
    assert CliRunner().invoke(app, every).exit_code == 1
    monkeypatch.undo()
    monkeypatch.setattr(running, "EXPERIMENTS", only)
    assert CliRunner().invoke(app, every).exit_code == 0
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "By the paper&#x27;s own model most accesses" in page


def test_commands_exit_with_whether_claims_are_as_known(tmp_path: Path) -> None:
    runner = CliRunner()
    listed = runner.invoke(app, ["lab", "list"])
    assert listed.exit_code == 0
    assert "000-figure-9" in listed.output
    held = runner.invoke(app, ["lab", "run", "001-figure-8", "--out", str(tmp_path)])
    assert held.exit_code == 0
    assert (tmp_path / "report.html").exists()
    assert runner.invoke(app, ["lab", "run", "002-figure-4b"]).exit_code == 0
    unknown = runner.invoke(app, ["lab", "run", "005-figure-1"])
    assert isinstance(unknown.exception, SettingError)
    assert unknown.exception.exit_code == 2
