"""Things over HTTP and WebSocket: the same boxes and names as the Memory gives."""

import io

import numpy as np
import pytest
from PIL import Image

from everlearn import Memory, Pixels
from everlearn.regions import region_embedder
from everlearn.service.client import Client
from tests.memory.test_finding import SquareFinder, SquareProposer, scene, square
from tests.service.conftest import TOKEN, listening


@pytest.fixture(autouse=True)
def no_networks(monkeypatch):
    monkeypatch.setattr(region_embedder, "Proposer", SquareProposer)
    monkeypatch.setattr(region_embedder, "MainThing", SquareFinder)


@pytest.fixture
def memories(tmp_path):
    with Memory(tmp_path / "m", embedder=Pixels(size=6, colour=True), regions="things") as memory:
        yield {"home": memory}


def png(pixels: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def taught(memory: Memory) -> Memory:
    for seed in range(3):
        memory.teach(scene(seed, ("red", 5 * seed, 60)), "red", box=square(5 * seed, 60))
        memory.teach(scene(9 + seed, ("blue", 70, 4 * seed)), "blue", box=square(70, 4 * seed))
    return memory


def test_a_box_is_taught_asked_and_explained(api, memories) -> None:
    picture = png(scene(1, ("red", 20, 60)))
    form = {"name": "red", "box": "20,60,60,100"}
    assert api.post("/v1/teach", data=form, files={"image": picture}).json() == {"new": True}
    assert api.post("/v1/teach", data=form, files={"image": picture}).json() == {"new": False}
    other = {"name": "noise", "box": "[0]"}
    assert api.post("/v1/teach", data=other, files={"image": picture}).status_code == 422
    for box in ("0,0,5000,10", "0,0,nan,10", "5,5,5,5"):
        wrong = {"name": "noise", "box": box}
        refused = api.post("/v1/teach", data=wrong, files={"image": picture})
        assert refused.status_code in (400, 422)
    assert memories["home"].names().keys() == {"red"}
    (row,) = api.get("/v1/teachings").json()
    assert row["box"] == pytest.approx(np.array(square(20, 60)) / 120, abs=1e-5)
    jpeg = {"content-type": "image/png"}
    said = api.post("/v1/ask?box=0.2,0.5,0.5,0.8", content=picture, headers=jpeg).json()
    assert said["answers"][0]["name"] == "red"
    assert said["box"] == [0.2, 0.5, 0.5, 0.8]
    why = api.post("/v1/why?box=20,60,60,100", content=picture, headers=jpeg).json()
    assert why["effects"][0]["box"] == row["box"]
    moved = {"name": "crimson", "box": "20,60,60,100"}
    done = api.post("/v1/correct", data=moved, files={"image": picture}).json()
    assert done["moved_from"] == ["red"]


def test_find_equals_that_of_the_memory(api, memories) -> None:
    memory = taught(memories["home"])
    picture = scene(50, ("blue", 10, 70), ("red", 75, 30))
    headers = {"content-type": "image/png"}
    things = api.post("/v1/find", content=png(picture), headers=headers).json()["things"]
    expected = memory.find(picture)
    assert [thing["name"] for thing in things] == [thing.name for thing in expected]
    assert [tuple(thing["box"]) for thing in things] == [tuple(t.box) for t in expected]
    assert api.post("/v1/find", content=b"no image", headers=headers).status_code == 422
    many = api.post("/v1/find?most=100000", content=png(picture), headers=headers)
    assert many.status_code == 422


def test_a_stream_follows_things(api, memories) -> None:
    taught(memories["home"])
    with api.websocket_connect("ws://127.0.0.1:8737/v1/find/stream") as stream:
        tracks, events = set(), []
        for step in range(5):
            stream.send_bytes(png(scene(40, ("red", 10 + 6 * step, 60))))
            said = stream.receive_json()
            left = (10 + 6 * step) / 120
            tracks |= {t["track"] for t in said["things"] if abs(t["box"][0] - left) < 1e-3}
            events += said["events"]
        (track,) = tracks
        named = [event for event in events if event["track"] == track]
        assert [event["name"] for event in named] == ["red"]
        stream.send_text("{}")
        assert stream.receive_json()["error"]["kind"] == "InvalidInput"
        stream.send_bytes(b"no image")
        assert stream.receive_json()["error"]["kind"] == "NotAnImage"


def test_the_client_sends_and_receives_boxes(memories) -> None:
    memory = taught(memories["home"])
    picture = png(scene(50, ("blue", 10, 70), ("red", 75, 30)))
    with listening(memories) as address, Client(address, token=TOKEN) as client:
        assert [t.name for t in client.find(picture)] == [t.name for t in memory.find(picture)]
        assert client.ask(picture, box=square(75, 30))[0].name == "red"
        assert client.ask(picture, where=True).box is not None
        assert client.teach(picture, "blue", box=square(10, 70))
        assert client.teachings() == memory.teachings()
        assert client.why(picture, box=square(10, 70)).effects == (
            memory.why(picture, box=square(10, 70)).effects
        )


def test_listeners_receive_track_events(api, memories) -> None:
    """Webhooks and MQTT follow the same events."""
    told = []
    api.service.follow(lambda memory, kind, facts: told.append((memory, kind, facts)))
    taught(memories["home"])
    with api.websocket_connect("ws://127.0.0.1:8737/v1/find/stream") as stream:
        for _ in range(4):
            stream.send_bytes(png(scene(40, ("red", 10, 60))))
            stream.receive_json()
    (event,) = [facts for _, kind, facts in told if kind == "track" and facts["name"] == "red"]
    assert event["before"] is None
    assert event["box"] == pytest.approx(np.array(square(10, 60)) / 120, abs=1e-5)


def test_unknown_things_are_kept_if_requested(api, memories) -> None:
    memory = taught(memories["home"])
    frame, headers = png(scene(40, ("green", 40, 40))), {"content-type": "image/png"}
    api.post("/v1/find", content=frame, headers=headers)
    for address in ("find/stream", "find/stream?remember=true"):
        assert not memory.unknowns()
        with api.websocket_connect(f"ws://127.0.0.1:8737/v1/{address}") as stream:
            for _ in range(4):
                stream.send_bytes(frame)
                stream.receive_json()
    (group,) = api.get("/v1/strangers").json()
    assert api.post("/v1/strangers/name", json={"group": group["id"], "name": "green"}).is_success
    (row,) = api.get("/v1/teachings?name=green").json()
    assert row["box"] == pytest.approx([1 / 3, 1 / 3, 2 / 3, 2 / 3], abs=1e-5)
    other = png(scene(41, ("green", 0, 0)))
    memory.forget(name="green")
    api.post("/v1/find?remember=true", content=other, headers=headers)
    assert [group["count"] for group in api.get("/v1/strangers").json()] == [1]
