"""Connectors: every option's default and parser agree, and values come out typed."""

from __future__ import annotations

import datetime as dt

import pytest

from headrace.errors import PlanError, SettingError
from headrace.plan.connectors import SINKS, SOURCES, Connector, describe


@pytest.mark.parametrize("connector", [*SOURCES.values(), *SINKS.values()], ids=lambda connector: connector.name)
def test_defaults_could_have_been_written(connector: Connector) -> None:
    for option in connector.options:
        if isinstance(option.default, str | bool | float):
            assert option.parse(str(option.default)) == option.default


def test_values_are_typed_and_defaults_filled_in() -> None:
    given = (("connector", "generator"), ("duration", "5 min"), ("rate", "1e3"), ("start", "2026-01-01"))
    values = SOURCES["generator"].values(given)
    assert (values["rate"], values["duration"], values["seed"]) == (1000.0, 300_000_000, 0)
    assert values["start"] == dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def test_header_is_a_flag_for_csv_only() -> None:
    files = SOURCES["files"]
    assert files.values((("format", "CSV"), ("header", "TRUE"), ("path", "x")))["header"] is True
    assert files.misplaced((("header", "true"), ("path", "x"))) is not None
    assert files.misplaced((("format", "csv"), ("header", "true"), ("path", "x"))) is None


def test_unknown_option_and_bad_value_are_refused() -> None:
    with pytest.raises(PlanError, match="has no option speed"):
        SOURCES["files"].values((("speed", "1"),))
    with pytest.raises(SettingError, match="a whole number from 1"):
        SOURCES["generator"].values((("keys", "0"),))


def test_a_tab_parts_columns_as_itself_and_as_it_is_written() -> None:
    for written in ("\t", "\\t"):
        given = (("servers", "h:1"), ("topic", "t"), ("format", "csv"), ("delimiter", written))
        assert SOURCES["kafka"].values(given)["delimiter"] == "\t"


def test_description_names_every_option() -> None:
    text = describe(SOURCES)
    assert all(f"`{option.name}`" in text for connector in SOURCES.values() for option in connector.options)
