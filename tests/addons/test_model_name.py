"""A model's name is put into a body, and nothing else of it changes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from addons.model_name import with_model

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"model":"gpt-x"}', b'{"model":"qwen3:8b"}'),
        (b'{ "model" :\t"gpt-x" , "a": [1e5, 1.50] }\n', b'{ "model" :\t"qwen3:8b" , "a": [1e5, 1.50] }\n'),
        (b'{"a":{"model":"inner"},"model":null}', b'{"a":{"model":"inner"},"model":"qwen3:8b"}'),
        (b'{"model":"one","model":{"two":2}}', b'{"model":"qwen3:8b","model":"qwen3:8b"}'),
        (b'{"mod\\u0065l":"gpt-x"}', b'{"mod\\u0065l":"qwen3:8b"}'),
        (b'{"a":"\\"model\\":\\"no\\"","model":"x"}', b'{"a":"\\"model\\":\\"no\\"","model":"qwen3:8b"}'),
        (b'\xef\xbb\xbf{"a":"\xc3\xa9","model":"x"}', b'\xef\xbb\xbf{"a":"\xc3\xa9","model":"qwen3:8b"}'),
        (b'{"a":"\xed\xa0\x80","model":"x"}', b'{"a":"\xed\xa0\x80","model":"qwen3:8b"}'),
        (b'{"messages":[]}', b'{"model": "qwen3:8b", "messages":[]}'),
        (b" {}", b' {"model": "qwen3:8b"}'),
        (b'{"a":NaN,"b":"raw\ttab","model":"x"}', b'{"a":NaN,"b":"raw\ttab","model":"qwen3:8b"}'),
    ],
)
def test_only_the_value_of_the_outermost_key_changes(body: bytes, expected: bytes) -> None:
    assert with_model(body, "qwen3:8b") == expected


@pytest.mark.parametrize(
    "body",
    [
        b"", b"[]", b"null", b"{", b'{"model"', b'{"model":', b'{"model":"x"', b'{"model":"x",}', b'{"model":"x"} {}',
        b'{"model" "x"}', b'{"a":1 "model":"x"}', b"\xff{}", b'{"a":' + b"[" * 200_000, b'{"a":"\xff"}',
    ],
)  # fmt: skip
def test_what_is_no_json_object_is_an_error(body: bytes) -> None:
    with pytest.raises(ValueError):
        with_model(body, "qwen3:8b")


def test_a_name_is_written_as_json() -> None:
    assert with_model(b'{"model":1}', 'a"b\\ü') == b'{"model":"a\\"b\\\\\\u00fc"}'


@given(st.dictionaries(st.text(max_size=5), JSON, max_size=4), st.booleans(), st.sampled_from([None, 1]))
def test_all_else_reads_as_before(body: dict[str, object], ascii_only: bool, indent: int | None) -> None:
    text = json.dumps(body, ensure_ascii=ascii_only, indent=indent)
    named = with_model(text.encode("utf-8", "surrogatepass"), "m")
    assert json.loads(named.decode("utf-8", "surrogatepass")) == body | {"model": "m"}
