"""Answers as JSON values, to be stored under an idempotency key."""

from typing import Any

from pydantic import BaseModel

from everlearn.service.api import models


def to_json_value(answer: Any) -> dict[str, Any]:
    """An answer as a JSON-serialisable dictionary, with the name of its model if it has one."""
    if isinstance(answer, BaseModel):
        return {"model": type(answer).__name__, "value": answer.model_dump(mode="json")}
    return {"model": None, "value": answer}


def from_json_value(kept: dict[str, Any]) -> Any:
    """Inverse of :func:`to_json_value`."""
    if kept["model"] is None:
        return kept["value"]
    model: type[BaseModel] = getattr(models, kept["model"])
    return model.model_validate(kept["value"])
