"""How long things take: a few constants a technique, measured once by `benchmarks/cases/sharing_calibration.py`.

    nanoseconds = Σ over trees (events·event + batches·batch + operations·operation + edges·edge + answers·answer)

Under TriWeave, events are folded and cut into slices once, and trees fold partials. Batches are taken to be of 65
536 events.

They are of one machine, but plans depend on their ratios, which are much alike on others; `Calibration.read` takes
those of another file.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

from windlass.errors import InvalidArgument
from windlass.sharing.techniques import TECHNIQUES

__all__ = ["BATCH", "Calibration", "Constants", "calibration"]

BATCH = 1 << 16  # events


@dataclass(frozen=True)
class Constants:
    """Nanoseconds of a technique."""

    operation: float
    edge: float
    answer: float


@dataclass(frozen=True)
class Calibration:
    """Nanoseconds for a tree to begin a batch, to fold an event, to make a slice, to fold a partial; for windows over a
    wheel to lay out their edges and be called once more; and of techniques."""

    batch: float
    event: float
    slice: float
    partial: float
    call: float
    techniques: dict[str, Constants]

    @classmethod
    def read(cls, path: str | Path) -> Calibration:
        return cls.parse(Path(path).read_text())

    @classmethod
    def parse(cls, text: str) -> Calibration:
        try:
            found = json.loads(text)
            techniques = {name: Constants(**found["techniques"][name]) for name in TECHNIQUES}
            batch, event, slice_, partial, call = (found[n] for n in ("batch", "event", "slice", "partial", "call"))
            return cls(batch, event, slice_, partial, call, techniques)
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise InvalidArgument(f"this is no calibration: {type(error).__name__}: {error}") from error

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=2) + "\n"


@cache
def calibration() -> Calibration:
    """The constants that come with the package."""
    return Calibration.parse((files("windlass.sharing") / "calibration.json").read_text())
