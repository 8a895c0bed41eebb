"""What a model says of itself."""

from __future__ import annotations

from typing import Any

from sardonyx.common.record import field, record


@record(frozen=True)
class ModelMetadata:
    """What a model says of itself."""

    producer_name: str = ""
    graph_name: str = ""
    domain: str = ""
    description: str = ""
    graph_description: str = ""
    version: int = 0
    custom_metadata_map: dict[str, Any] = field(default_factory=dict)
