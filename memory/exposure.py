"""How often each note went to local and to cloud models, since the suite started or the counts were cleared.

Counted per exchange and model that really received the body (dispatch.md, "What is recorded"). In memory only, and
bounded: a model's name is whatever a client wrote.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from memory.exchange import SentTo, Sighting, timestamp

MOST_MODELS = 50
"""Models counted by name for one note."""
OTHERS = "others"
"""Where the counts of further models go together."""


@dataclass(slots=True)
class NoteExposure:
    """The counts of one note. `models` counts content and references together."""

    first_shared: datetime
    last_shared: datetime
    local_content: int = 0
    local_reference: int = 0
    cloud_content: int = 0
    cloud_reference: int = 0
    models: Counter[str] = field(default_factory=Counter)

    def count_model(self, model: str) -> None:
        """A new name beyond `MOST_MODELS` takes the place of the rarest, whose count goes to `OTHERS`."""
        self.models[model] += 1
        if len(self.models) > MOST_MODELS + (OTHERS in self.models):
            rarest = min(self.models.keys() - {model, OTHERS}, key=lambda one: (self.models[one], one))
            self.models[OTHERS] += self.models.pop(rarest)

    def to_json(self) -> dict[str, Any]:
        return {
            "localContent": self.local_content,
            "localReference": self.local_reference,
            "cloudContent": self.cloud_content,
            "cloudReference": self.cloud_reference,
            "firstShared": timestamp(self.first_shared),
            "lastShared": timestamp(self.last_shared),
            "models": dict(self.models),
        }


class Exposure:
    """The sharing counts of all notes. Used from the event loop's thread only."""

    def __init__(self) -> None:
        self._notes: dict[str, NoteExposure] = {}

    def record(self, sightings: Iterable[Sighting], sent: SentTo, moment: datetime) -> None:
        """Count one body that `sent.model` received. A folder listing is shown, not counted (detection.md)."""
        for sighting in sightings:
            if sighting.grade == "listing":
                continue
            note = self._notes.setdefault(sighting.note, NoteExposure(moment, moment))
            note.last_shared = max(note.last_shared, moment)
            note.count_model(sent.model)
            match sent.to, sighting.by:
                case "local", "content":
                    note.local_content += 1
                case "local", "reference":
                    note.local_reference += 1
                case "cloud", "content":
                    note.cloud_content += 1
                case "cloud", "reference":
                    note.cloud_reference += 1

    def reset(self) -> None:
        self._notes.clear()

    def to_json(self) -> dict[str, Any]:
        """`{noteId: {localContent, …, models}}`, only notes that were ever sent."""
        return {note: exposure.to_json() for note, exposure in self._notes.items()}
