"""Answers stored under an idempotency key are read back as they were."""

import json

from everlearn import Client, Memory, Pixels
from everlearn.service.api import exchanging, models, routes, unknowns
from everlearn.service.api.addresses import ChangeKey
from everlearn.service.api.kept_answers import from_json_value, to_json_value
from tests.service.conftest import TOKEN, listening, picture

# An erase and a merge are several transactions: their answers are never stored.
NEVER_STORED = {exchanging.MergedPart}


def answers_of_changes():
    """The response models of all routes that take an idempotency key."""
    handlers = [
        route.endpoint for part in (routes, unknowns, exchanging) for route in part.router.routes
    ]
    return {
        handler.__annotations__["return"]
        for handler in handlers
        if ChangeKey in handler.__annotations__.values()
    }


def test_every_answer_to_a_change_can_be_restored():
    found = answers_of_changes() - NEVER_STORED
    assert {models.Taught, unknowns.Counted, unknowns.Strictness} <= found
    for model in found:
        assert getattr(models, model.__name__) is model


def test_an_answer_is_restored_from_json():
    for answer in (models.Taught(new=True), models.Strictness(accept=0.9), {"a": [1, "b", None]}):
        assert from_json_value(json.loads(json.dumps(to_json_value(answer)))) == answer


def test_changes_of_a_memory_in_a_database_are_answered(address):
    with Memory(address, embedder=Pixels(size=8, colour=True)) as memory:
        for shift in range(6):
            memory.teach(picture(200, 0, 0, shift=4 * shift), "red")
            memory.teach(picture(0, 0, 200, shift=4 * shift), "blue")
        with listening({"shop": memory}) as url, Client(url, token=TOKEN) as client:
            assert client.ask(picture(250, 250, 40), remember=True).unknown
            (group,) = client.unknowns()
            assert client.ignore_unknowns(group.id) == 1
            client.undo()
            assert client.name_unknowns(group.id, "yellow") == 1
            assert client._service.change("strictness", {"accept": 0.9}) == {"accept": 0.9}
        assert memory.names()["yellow"].count == 1
        assert memory.accept == 0.9
