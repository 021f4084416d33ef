"""How far back."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from memory.since import last_id_before, parse_since

NOW = datetime(2026, 3, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("30d", "2026-03-01T12:00:00"),
        (" 2w ", "2026-03-17T12:00:00"),
        ("36h", "2026-03-30T00:00:00"),
        ("1.5H", "2026-03-31T10:30:00"),
        ("15 m", "2026-03-31T11:45:00"),
        ("0s", "2026-03-31T12:00:00"),
        ("2026-03-04", "2026-03-04T00:00:00"),
        ("2026-03-04T05:06:07Z", "2026-03-04T05:06:07"),
        ("2026-03-04T05:06:07.890+02:00", "2026-03-04T03:06:07.890"),
        ("2026-03-04 05:06", "2026-03-04T05:06:00"),
        ("999999999d", "1970-01-01T00:00:00"),
        ("900000d", "1970-01-01T00:00:00"),
        ("0001-01-01T00:00:00+23:59", "1970-01-01T00:00:00"),
        ("1066-10-14", "1970-01-01T00:00:00"),
    ],
)
def test_a_duration_or_a_time(text: str, moment: str) -> None:
    assert parse_since(text, NOW) == datetime.fromisoformat(moment).replace(tzinfo=UTC)


@pytest.mark.parametrize("text", ["", "30", "d", "-1d", "30 days", "1y", "٣d", "yesterday", "2026-13-01", "nan d"])
def test_anything_else_is_said(text: str) -> None:
    with pytest.raises(ValueError, match=r"^since must be a duration like 30d, or a time like 2026-03-04T05:06:07Z$"):
        parse_since(text, NOW)


def test_ids_of_a_time_are_above_those_before_it() -> None:
    assert last_id_before(None) == ""
    assert last_id_before(datetime(1970, 1, 1, tzinfo=UTC)) == ""
    assert last_id_before(datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)) == f"{999_999:014x}"
    assert last_id_before(NOW) == f"{1_774_958_400 * 10**6 - 1:014x}"
