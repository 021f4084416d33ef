"""How often each note went where."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from memory.exchange import By, Grade, Place, SentTo, Sighting
from memory.exposure import Exposure

NOON = datetime(2026, 3, 4, 12, 0, 0, tzinfo=UTC)
CLOUD = SentTo("claude-test", "cloud", "api.anthropic.com:443")
LOCAL = SentTo("qwen3:8b", "local", "localhost:11434")


def sighting(note: str = "vault/Tides.md", by: By = "content", grade: Grade = "line") -> Sighting:
    return Sighting(note, "Tides", by, grade, 1, 2)


def counts(exposure: Exposure, note: str = "vault/Tides.md") -> list[int]:
    one = exposure.to_json()[note]
    return [one[key] for key in ("localContent", "localReference", "cloudContent", "cloudReference")]


@pytest.mark.parametrize(
    ("sent", "by", "grade", "expected"),
    [
        (LOCAL, "content", "line", [1, 0, 0, 0]),
        (LOCAL, "content", "quote", [1, 0, 0, 0]),
        (LOCAL, "reference", "reference", [0, 1, 0, 0]),
        (CLOUD, "content", "line", [0, 0, 1, 0]),
        (CLOUD, "reference", "reference", [0, 0, 0, 1]),
    ],
)
def test_each_kind_is_counted_on_its_own(sent: SentTo, by: By, grade: Grade, expected: list[int]) -> None:
    exposure = Exposure()
    exposure.record([sighting(by=by, grade=grade)], sent, NOON)
    assert counts(exposure) == expected


def test_the_counts_of_one_note() -> None:
    exposure = Exposure()
    exposure.record([sighting()], CLOUD, NOON)
    exposure.record([sighting(by="reference", grade="reference")], LOCAL, NOON + timedelta(minutes=1, milliseconds=5))
    exposure.record([sighting()], CLOUD, NOON + timedelta(minutes=2))
    assert exposure.to_json() == {
        "vault/Tides.md": {
            "localContent": 0,
            "localReference": 1,
            "cloudContent": 2,
            "cloudReference": 0,
            "firstShared": "2026-03-04T12:00:00.000Z",
            "lastShared": "2026-03-04T12:02:00.000Z",
            "models": {"claude-test": 2, "qwen3:8b": 1},
        }
    }


def test_the_last_time_never_goes_back() -> None:
    exposure = Exposure()
    exposure.record([sighting()], CLOUD, NOON)
    exposure.record([sighting()], CLOUD, NOON - timedelta(hours=1))
    assert exposure.to_json()["vault/Tides.md"]["lastShared"] == "2026-03-04T12:00:00.000Z"


def test_a_listing_is_not_counted() -> None:
    exposure = Exposure()
    exposure.record([sighting(by="reference", grade="listing"), sighting("vault/Clock.md")], CLOUD, NOON)
    assert list(exposure.to_json()) == ["vault/Clock.md"]


def test_several_notes_of_one_body() -> None:
    exposure = Exposure()
    exposure.record([sighting("a/1.md"), sighting("a/2.md", "reference", "reference")], CLOUD, NOON)
    assert (counts(exposure, "a/1.md"), counts(exposure, "a/2.md")) == ([0, 0, 1, 0], [0, 0, 0, 1])


@pytest.mark.parametrize("sightings", [[], iter(())])
def test_a_body_without_notes_leaves_nothing(sightings: Any) -> None:
    exposure = Exposure()
    exposure.record(sightings, CLOUD, NOON)
    assert exposure.to_json() == {}


@pytest.mark.parametrize("to", ["local", "cloud"])
def test_reset_forgets_everything(to: Place) -> None:
    exposure = Exposure()
    exposure.record([sighting()], SentTo("m", to, "h:1"), NOON)
    exposure.reset()
    assert exposure.to_json() == {}
    exposure.record([sighting()], SentTo("m", to, "h:1"), NOON + timedelta(days=1))
    assert exposure.to_json()["vault/Tides.md"]["firstShared"] == "2026-03-05T12:00:00.000Z"


def test_what_was_given_out_is_a_copy() -> None:
    exposure = Exposure()
    exposure.record([sighting()], CLOUD, NOON)
    exposure.to_json()["vault/Tides.md"]["models"].clear()
    assert exposure.to_json()["vault/Tides.md"]["models"] == {"claude-test": 1}


def test_models_beyond_fifty_are_counted_together_the_rarest_first() -> None:
    exposure = Exposure()

    def send(model: str, times: int = 1) -> None:
        for _ in range(times):
            exposure.record([sighting()], SentTo(model, "cloud", "api.example:443"), NOON)

    def models() -> dict[str, int]:
        counted: dict[str, int] = exposure.to_json()["vault/Tides.md"]["models"]
        return counted

    for number in range(50):
        send(f"model-{number:02}", 1 if number in {7, 8} else 2)
    assert (len(models()), "others" in models()) == (50, False)
    send("new")
    assert "model-07" not in models()
    assert (len(models()), models()["others"], models()["new"]) == (51, 1, 1)
    send("newer")
    assert "model-08" not in models()
    assert (len(models()), models()["others"]) == (51, 2)
    send("others", 3)
    assert (len(models()), models()["others"]) == (51, 5)
    send("new")
    send("newer")
    send("newest")  # the rarest itself now, and kept all the same
    assert (len(models()), models()["newest"], models()["others"]) == (51, 1, 7)
    for number in range(200):
        send(f"made-up-{number}")
    assert (len(models()), sum(models().values())) == (51, 98 + 2 + 3 + 3 + 200)
