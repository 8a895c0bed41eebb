"""Who shares the work of a device."""

from __future__ import annotations

from sardonyx.common.crew import Claim, Crew
from sardonyx.numpy_backend.room import Room


class Team:
    """The threads of a device, and the memory in which each of them works; they walk through one segment at a time."""

    def __init__(self, crew: Crew) -> None:
        self.crew = crew
        self.rooms = [Room() for _ in range(crew.size)]
        self.turn = Claim()
