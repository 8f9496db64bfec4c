"""Equal SQL values have equal key numbers, whatever array they come in; and shards get even shares."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.engine.keys import encode_keys, shard_of
from headrace.plan.sharing import KeyForm

EXACT = [
    pytest.param(pa.int32(), st.integers(-(2**31), 2**31 - 1), id="int"),
    pytest.param(pa.int64(), st.integers(-(2**63), 2**63 - 1), id="bigint"),
    pytest.param(pa.float64(), st.one_of(st.sampled_from((0.0, -0.0, math.nan, math.inf)), st.floats()), id="double"),
    pytest.param(pa.bool_(), st.booleans(), id="boolean"),
    pytest.param(pa.date32(), st.dates(), id="date"),
    pytest.param(pa.timestamp("us", "UTC"), st.datetimes(timezones=st.just(dt.UTC)), id="timestamp"),
]
HASHED = [
    pytest.param(pa.string(), st.text(max_size=5), id="string"),
    pytest.param(pa.decimal128(9, 2), st.decimals(-1000, 1000, places=2), id="decimal"),
    pytest.param(pa.decimal128(38, 0), st.integers(-(10**38) + 1, 10**38 - 1).map(Decimal), id="decimal of two words"),
]


def same(left: object, right: object) -> bool:
    return left == right or (left != left and right != right)


@pytest.mark.parametrize(("kind", "values"), EXACT)
@given(data=st.data())
def test_exact_keys_are_equal_where_values_are(
    kind: pa.DataType, values: st.SearchStrategy[object], data: st.DataObject
) -> None:
    drawn = data.draw(st.lists(values, min_size=1, max_size=8))
    drawn += data.draw(st.lists(st.sampled_from(drawn), max_size=4))
    keys = encode_keys([pa.array(drawn, kind)], KeyForm.EXACT)
    assert keys.dtype == np.int64
    for value, key in zip(drawn, keys, strict=True):
        assert [same(value, other) for other in drawn] == [key == other for other in keys]


@pytest.mark.parametrize(("kind", "values"), EXACT + HASHED)
@given(data=st.data())
def test_hashed_keys_of_equal_values_are_equal_and_of_these_few_others_are_not(
    kind: pa.DataType, values: st.SearchStrategy[object], data: st.DataObject
) -> None:
    drawn = data.draw(st.lists(values, min_size=1, max_size=8))
    drawn += data.draw(st.lists(st.sampled_from(drawn), max_size=4))
    keys = encode_keys([pa.array(drawn, kind)], KeyForm.HASHED)
    for value, key in zip(drawn, keys, strict=True):
        assert [same(value, other) for other in drawn] == [key == other for other in keys]


@pytest.mark.parametrize(("kind", "values"), EXACT + HASHED)
@given(data=st.data())
def test_a_slice_has_the_keys_of_its_rows(
    kind: pa.DataType, values: st.SearchStrategy[object], data: st.DataObject
) -> None:
    drawn = data.draw(st.lists(values, min_size=2, max_size=12))
    begin = data.draw(st.integers(0, len(drawn)))
    count = data.draw(st.integers(0, len(drawn) - begin))
    whole = pa.array(drawn, kind)
    keys = encode_keys([whole, whole], KeyForm.HASHED)
    cut = whole.slice(begin, count)
    assert encode_keys([cut, cut], KeyForm.HASHED).tolist() == keys[begin : begin + count].tolist()


def test_zeros_are_one_key_and_so_are_nans() -> None:
    odd_nan = np.array([0x7FF8000000000001], dtype=np.uint64).view(np.float64)[0]
    zero, minus_zero, nan, other_nan = encode_keys([pa.array([0.0, -0.0, math.nan, odd_nan])], KeyForm.EXACT)
    assert zero == minus_zero
    assert nan == other_nan


def test_columns_of_a_composite_key_do_not_run_into_each_other() -> None:
    left, right = pa.array(["ab", "a", "", "abc"]), pa.array(["c", "bc", "abc", ""])
    assert len(set(encode_keys([left, right], KeyForm.HASHED).tolist())) == 4
    assert len(set(encode_keys([pa.array(["a", "b"]), pa.array(["b", "a"])], KeyForm.HASHED).tolist())) == 2


def test_text_is_hashed_by_its_bytes() -> None:
    composed, decomposed, emoji = encode_keys([pa.array(["é", "e\u0301", "😀"])], KeyForm.HASHED)
    assert len({composed, decomposed, emoji}) == 3


def test_keys_are_the_same_in_every_version_that_reads_a_checkpoint() -> None:
    columns = [pa.array(["a", "é漢", ""]), pa.array([1, -1, 2**62])]
    known = [451620775361493381, 7372016105408773018, 6216405523665815615]
    assert encode_keys(columns, KeyForm.HASHED).tolist() == known
    assert shard_of(np.array([1, 2, 3, -4, 2**62]), 7).tolist() == [2, 6, 0, 2, 0]


@pytest.mark.parametrize("shards", [1, 2, 3, 7, 64])
@pytest.mark.parametrize(
    "keys",
    [
        pytest.param(np.arange(20_000), id="in a row"),
        pytest.param(np.arange(20_000) * 4096, id="multiples"),
        pytest.param(np.arange(20_000) << 40, id="high bits"),
        pytest.param(np.arange(20_000).astype(np.float64).view(np.int64), id="doubles"),
    ],
)
def test_shards_get_even_shares_of_the_keys(keys: np.ndarray, shards: int) -> None:
    shares = np.bincount(shard_of(keys, shards), minlength=shards)
    assert len(shares) == shards
    assert abs(shares / (20_000 / shards) - 1).max() < 0.25
