"""The report: one HTML page that needs nothing else, and the same as Markdown with its pictures beside it.

Made of stored results alone. On top how many claims hold and all of them in one table, those that do not hold first;
then each experiment: what it shows, its pictures, the paper's parameters and ours, its claims. Light, and dark where
the reader's system is; one column on a phone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from headrace.lab.drawing import draw
from headrace.lab.experiment import PAPERS, Claim, Grid, Picture
from headrace.lab.storing import Result, write

HOLDS, FAILS = "holds", "does not hold"
UNEXPLAINED = "Not explained yet."
STYLE = """
:root { --ink: #1c2026; --quiet: #5c6470; --rule: #dde1e6; --page: #ffffff; --card: #f6f7f9; --good: #17693a;
  --bad: #a8261c; --link: #0b5c94; }
@media (prefers-color-scheme: dark) { :root { --ink: #e7eaee; --quiet: #a3acb8; --rule: #333a44; --page: #14171c;
  --card: #1c2128; --good: #6fcf97; --bad: #ff8a7a; --link: #7cc0f4; } svg { filter: brightness(1.18); } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 74rem; padding: 1.2rem clamp(.8rem, 3vw, 2.4rem) 4rem; background: var(--page);
  color: var(--ink); font: 16px/1.55 system-ui, sans-serif; }
h1 { font-size: clamp(1.5rem, 4.5vw, 2.1rem); line-height: 1.2; margin: .4em 0 .3em; }
h2 { font-size: 1.35rem; margin: 2.6rem 0 .4rem; padding-top: .6rem; border-top: 2px solid var(--rule); }
h3 { font-size: 1.12rem; margin: 2rem 0 .3rem; }
p { max-width: 46rem; }
a { color: var(--link); }
.quiet { color: var(--quiet); font-size: .9rem; }
.tally { display: flex; flex-wrap: wrap; gap: .7rem; margin: 1rem 0; padding: 0; list-style: none; }
.tally li { background: var(--card); border: 1px solid var(--rule); border-radius: .5rem; padding: .5rem .9rem; }
.tally b { font-size: 1.25rem; display: block; }
.pictures { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 27rem), 1fr)); gap: 1rem; }
figure { margin: 0; background: var(--card); border: 1px solid var(--rule); border-radius: .5rem; padding: .5rem; }
figure svg { width: 100%; height: auto; display: block; }
figure.table { overflow-x: auto; }
figcaption { font-weight: 600; font-size: .92rem; padding: .2rem .3rem .4rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; }
th, td { text-align: left; vertical-align: top; padding: .34rem .55rem; border-bottom: 1px solid var(--rule); }
td.n, th.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
td.name { white-space: nowrap; }
.ok { color: var(--good); font-weight: 600; white-space: nowrap; }
.no { color: var(--bad); font-weight: 600; white-space: nowrap; }
details { margin: .5rem 0; }
summary { cursor: pointer; color: var(--link); }
@media (max-width: 40rem) { body { font-size: 15px; } table.claims thead { display: none; }
  table.claims tr { display: block; border-bottom: 1px solid var(--rule); padding: .4rem 0; }
  table.claims td { display: block; border: 0; padding: .1rem 0; }
  table.claims td[data-of]::before { content: attr(data-of) ": "; color: var(--quiet); } }
"""


def write_report(results: Sequence[Result], run: Mapping[str, Any], out: Path) -> None:
    write(out / "report.html", html_page(results, run))
    write(out / "report.md", markdown(results, run))
    for result in results:
        for number, picture in enumerate(result.pictures, 1):
            if not isinstance(picture, Grid):
                write(out / "figures" / f"{result.experiment.name}-{number}.svg", draw(picture))


def tally(results: Sequence[Result]) -> tuple[int, int]:
    """How many claims hold, and how many there are."""
    claims = [claim for result in results for claim in result.claims]
    return sum(claim.holds for claim in claims), len(claims)


# --- the page


def html_page(results: Sequence[Result], run: Mapping[str, Any]) -> str:
    body = "".join((*_top(results), *_summary(results), *_sections(results), _versions(run)))
    return page("Headrace: the lab", body)


def page(title: str, body: str) -> str:
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="icon" href="data:,"><style>{STYLE}</style></head><body>{body}</body></html>\n'
    )


def _top(results: Sequence[Result]) -> Iterator[str]:
    held, all_claims = tally(results)
    share = held / all_claims if all_claims else 1.0
    clocks = " and ".join(sorted({result.setup.clock.value for result in results})) or "no"
    sizes = " and ".join(sorted({result.setup.size.value for result in results}))
    yield "<h1>The papers' tables and figures, from the running engine</h1>"
    yield (
        "<p>Each table and figure of the five papers that Headrace is built on, measured on this implementation, with "
        "what the papers say of it as checks. Nothing is left out that does not hold.</p>"
    )
    yield '<ul class="tally">'
    for number, text in (
        (f"{held} of {all_claims}", f"claims hold ({share:.0%})"),
        (str(len(results)), "experiments"),
        (clocks, "clock"),
        (sizes, "size"),
    ):
        yield f"<li><b>{escape(number)}</b>{escape(text)}</li>"
    yield "</ul>"


def _summary(results: Sequence[Result]) -> Iterator[str]:
    listed = [(result, claim) for result in results for claim in result.claims]
    failing, holding = ([one for one in listed if one[1].holds is holds] for holds in (False, True))
    yield '<h2 id="claims">All claims</h2>'
    if failing:
        yield f'<p class="quiet">{len(failing)} that do not hold, and why:</p>'
        yield from _claims_table(failing)
    yield f"<details{'' if failing else ' open'}><summary>{len(holding)} that hold</summary>"
    yield from _claims_table(holding)
    yield "</details>"
    yield '<nav><p class="quiet">Experiments (claims that hold, of all): '
    yield ", ".join(_link(result) for result in results)
    yield "</p></nav>"


def _link(result: Result) -> str:
    held = sum(claim.holds for claim in result.claims)
    return f'<a href="#{result.experiment.name}">{result.experiment.name}</a>&nbsp;{held}/{len(result.claims)}'


def _claims_table(listed: Sequence[tuple[Result, Claim]]) -> Iterator[str]:
    yield '<div class="wide"><table class="claims"><thead><tr><th>experiment</th><th>the paper says</th>'
    yield "<th>expected</th><th>found</th><th></th></tr></thead><tbody>"
    for result, claim in listed:
        name = result.experiment.name
        yield f'<tr><td class="name"><a href="#{name}">{name}</a></td>{_claim_cells(claim)}</tr>'
    yield "</tbody></table></div>"


def _claim_cells(claim: Claim) -> str:
    why = "" if claim.holds else f'<div class="quiet">{escape(claim.why or UNEXPLAINED)}</div>'
    verdict = f'<span class="ok">✓ {HOLDS}</span>' if claim.holds else f'<span class="no">✗ {FAILS}</span>'
    return (
        f'<td>{escape(claim.says)}{why}</td><td data-of="expected">{escape(claim.expected)}</td>'
        f'<td data-of="found">{escape(claim.found)}</td><td>{verdict}</td>'
    )


def _sections(results: Sequence[Result]) -> Iterator[str]:
    papers = list(dict.fromkeys(result.experiment.paper for result in results))
    for paper in papers:
        yield f'<h2 id="paper-{paper}">Paper {paper}</h2><p class="quiet">{escape(PAPERS.get(paper, ""))}</p>'
        for result in results:
            if result.experiment.paper == paper:
                yield from _section(result)


def _section(result: Result) -> Iterator[str]:
    experiment = result.experiment
    yield f'<section><h3 id="{experiment.name}">{escape(experiment.title)}</h3><p>{escape(experiment.shows)}</p>'
    yield pictures_html(result.pictures)
    yield '<div class="wide"><table class="claims"><thead><tr><th>the paper says</th><th>expected</th><th>found</th>'
    yield "<th></th></tr></thead><tbody>"
    yield "".join(f"<tr>{_claim_cells(claim)}</tr>" for claim in result.claims)
    yield "</tbody></table></div>"
    yield "<details><summary>Parameters</summary>"
    yield '<div class="wide"><table><thead><tr><th></th><th>paper</th><th>here</th></tr></thead><tbody>'
    yield f"{_parameters(result)}</tbody></table></div>"
    yield f'<p class="quiet">Numbers: {experiment.ground_by(result.setup.clock).value}; {escape(_how(result))}.</p>'
    yield "</details></section>"


def _how(result: Result) -> str:
    drawn = result.experiment.seeds(result.setup)
    told = f"seed{'s' if len(drawn) > 1 else ''} {', '.join(map(str, drawn))}" if drawn else "nothing is drawn"
    return f"{result.setup.clock.value} clock, {result.setup.size.value}, {told}"


def _parameter_rows(result: Result) -> list[tuple[str, str, str]]:
    papers, ours = result.experiment.papers, result.numbers.get("ours", {})
    names = list(dict.fromkeys((*papers, *ours)))
    return [(name, papers.get(name, ""), str(ours.get(name, "as there" if name in papers else ""))) for name in names]


def _parameters(result: Result) -> str:
    rows = _parameter_rows(result)
    return "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)


def pictures_html(pictures: Sequence[Picture]) -> str:
    return f'<div class="pictures">{"".join(map(_picture, pictures))}</div>'


def _picture(picture: Picture) -> str:
    if not isinstance(picture, Grid):
        return f"<figure>{draw(picture)}</figure>"
    head = "".join(f"<th>{escape(cell)}</th>" for cell in picture.head)
    rows = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in picture.rows)
    return (
        f'<figure class="table"><figcaption>{escape(picture.title)}</figcaption>'
        f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></figure>"
    )


def _versions(run: Mapping[str, Any]) -> str:
    told = ", ".join(f"{name} {number}" for name, number in run.get("versions", {}).items())
    return f'<h2>Versions</h2><p class="quiet">{escape(told)}</p>' if told else ""


# --- the same as text


def markdown(results: Sequence[Result], run: Mapping[str, Any]) -> str:
    held, all_claims = tally(results)
    listed = [(result.experiment.name, claim) for result in results for claim in result.claims]
    rows = [[f"[{name}](#{name})", *_claim_row(claim)] for name, claim in sorted(listed, key=lambda one: one[1].holds)]
    lines = [
        "# The papers' tables and figures, from the running engine",
        "",
        f"{held} of {all_claims} claims hold.",
        "",
    ]
    lines += [*_text_table(["experiment", "the paper says", "expected", "found", ""], rows), ""]
    for result in results:
        lines += _text_section(result)
    told = ", ".join(f"{name} {number}" for name, number in run.get("versions", {}).items())
    return "\n".join([*lines, f"Versions: {told}." if told else ""]).rstrip() + "\n"


def _text_section(result: Result) -> list[str]:
    experiment = result.experiment
    lines = [f'<a id="{experiment.name}"></a>', "", f"## {experiment.title}", "", experiment.shows, ""]
    for number, picture in enumerate(result.pictures, 1):
        if isinstance(picture, Grid):
            lines += [f"**{picture.title}**", "", *_text_table(picture.head, picture.rows), ""]
        else:
            lines += [f"![{picture.title}](figures/{experiment.name}-{number}.svg)", ""]
    lines += [*_text_table(["the paper says", "expected", "found", ""], [_claim_row(one) for one in result.claims]), ""]
    lines += [*_text_table(["", "paper", "here"], [list(row) for row in _parameter_rows(result)]), ""]
    return [*lines, f"Numbers: {experiment.ground_by(result.setup.clock).value}; {_how(result)}.", ""]


def _claim_row(claim: Claim) -> list[str]:
    verdict = HOLDS if claim.holds else f"**{FAILS}**: {claim.why or UNEXPLAINED}"
    return [claim.says, claim.expected, claim.found, verdict]


def _text_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    shown = [[cell.replace("|", "\\|") for cell in row] for row in (head, ["---"] * len(head), *rows)]
    return [f"| {' | '.join(row)} |" for row in shown]
