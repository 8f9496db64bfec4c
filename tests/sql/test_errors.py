"""Every mistake has its place, a caret, and what to write instead: the texts in ``golden/errors``.

A golden file holds cases parted by an empty line: the SQL, then ``=>`` and the class, then the error as a user sees it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.errors import SqlError
from headrace.sql import read_script

GOLDEN = Path(__file__).parent.parent / "golden" / "errors"
CATALOG = read_script((GOLDEN / "streams.sql").read_text()).catalog
CASES = [
    pytest.param(case, id=f"{path.stem}-{number}")
    for path in sorted(GOLDEN.glob("*.txt"))
    for number, case in enumerate(path.read_text().rstrip("\n").split("\n\n"), start=1)
]


@pytest.mark.parametrize("case", CASES)
def test_error_reads_as_in_the_golden_file(case: str) -> None:
    text, _, expected = case.partition("\n=> ")
    with pytest.raises(SqlError) as caught:
        read_script(text, CATALOG)
    assert f"{type(caught.value).__name__}\n{caught.value}" == expected


@pytest.mark.parametrize("case", CASES)
def test_every_error_says_what_to_write_instead(case: str) -> None:
    assert "\n  hint: " in case


def test_caret_stands_under_the_culprit_behind_tabs() -> None:
    with pytest.raises(SqlError) as caught:
        read_script("SELECT\tvalu\tFROM\ttemperature", CATALOG)
    _, _, source, caret, _ = str(caught.value).split("\n")
    assert source[caret.index("^") : caret.rindex("^") + 1] == "valu"
