"""How far back: `30d`, or a time."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

_AGO = re.compile(r"(\d{1,9}(?:\.\d{1,9})?) ?(s|m|h|d|w)", re.ASCII)
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_since(text: str, now: datetime) -> datetime:
    """A duration before `now` (`90s`, `15m`, `36h`, `30d`, `2w`) or an ISO 8601 time; one without an offset is in UTC.

    Nothing lies before 1970. Raises ValueError with a message for a person.
    """
    text = text.strip()
    try:
        if ago := _AGO.fullmatch(text.lower()):
            moment = now - timedelta(**{_UNITS[ago[2]]: float(ago[1])})
        else:
            moment = datetime.fromisoformat(text)
            moment = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except OverflowError:  # longer ago than a calendar goes back, or at one of its ends
        return _EPOCH
    except ValueError:
        raise ValueError("since must be a duration like 30d, or a time like 2026-03-04T05:06:07Z") from None
    return max(moment, _EPOCH)


def last_id_before(moment: datetime | None) -> str:
    """The greatest id that an exchange before this moment can have; below all ids where there is none.

    Ids are microseconds since 1970, as 14 hex digits.
    """
    microseconds = (moment - _EPOCH) // timedelta(microseconds=1) if moment else 0
    return f"{microseconds - 1:014x}" if microseconds else ""
