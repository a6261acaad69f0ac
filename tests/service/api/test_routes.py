"""The API gives the same results as the Memory."""

import base64
import threading

import numpy as np
import onnxruntime
import pytest

from everlearn import Memory
from everlearn.memory.storage.log import counting_examples
from tests.service.conftest import picture, wait_until


def teach(api, vector, name, **more):
    return api.post("/v1/teach", json={"vector": list(vector), "name": name} | more)


def test_a_question_after_a_teaching_uses_it(api, memories):
    before = api.post("/v1/ask", json={"vector": [0, 1]}).json()
    nothing = {"unknown": True, "familiarity": None, "threshold": None, "answers": []}
    nothing["steady"] = None
    assert before == nothing | {"p_value": 0.0, "ignored": False, "probably": False, "box": None}
    for vector, name in [([0, 1], "cup"), ([0.1, 1], "cup"), ([1, 0], "pen")]:
        assert teach(api, vector, name).json() == {"new": True}
    answered = api.post("/v1/ask", json={"vector": [0.05, 1], "top": 1}).json()
    own = memories["home"].ask([0.05, 1], top=1)
    assert answered["answers"] == [{"name": "cup", "probability": own[0].probability}]
    assert answered["unknown"] is own.unknown
    assert {row["name"]: row["count"] for row in api.get("/v1/names").json()} == {
        "cup": 2,
        "pen": 1,
    }


def test_names_are_paged_and_searched_by_substring(api):
    for place, name in enumerate(["cup", "pen", "pencil", "mug"]):
        teach(api, [place, 1], name)

    def names(**query):
        return [row["name"] for row in api.get("/v1/names", params=query).json()]

    assert names() == ["cup", "mug", "pen", "pencil"]
    assert names(containing="PEN") == ["pen", "pencil"]
    assert names(limit=2, offset=1) == ["mug", "pen"]
    assert names(latest_first=True, limit=1) == ["mug"]
    assert api.get("/v1/names", params={"limit": 0}).status_code == 422


def test_a_name_that_looks_misspelled_is_noticed_and_a_rename_says_the_spelling(api, memories):
    memories["home"].teach(picture(9, 9, 200), "Purple Finch")

    def similar(name):
        return api.get("/v1/similar-name", params={"name": name}).json()

    assert similar("Purpel Finch") == {"similar": "Purple Finch"}
    assert similar(" purple  finch") == similar("Wren") == {"similar": None}
    memories["home"].teach(picture(9, 200, 9), "Wren")
    done = api.post("/v1/rename", json={"old": "wren", "new": "purple finch "}).json()
    assert (done["name"], done["count"]) == ("Purple Finch", 2)
    refused = api.post("/v1/rename", json={"old": "Purple Finch", "new": "unknown"})
    assert (refused.status_code, refused.json()["error"]["kind"]) == (422, "InvalidLabel")


def test_images_are_accepted_in_three_encodings(api):
    red, again = picture(200, 0, 0), picture(200, 0, 0, shift=9)
    text = base64.b64encode(red).decode()
    assert api.post("/v1/teach", json={"image": text, "name": "red"}).json() == {"new": True}
    form = api.post("/v1/teach", data={"name": "red"}, files={"image": ("x.png", red)})
    assert form.json() == {"new": False}
    api.post("/v1/teach", data={"name": "blue"}, files={"image": ("y", picture(0, 0, 200))})
    bare = api.post("/v1/ask?top=1", content=again, headers={"content-type": "image/png"})
    assert bare.json()["answers"][0]["name"] == "red"
    first = api.get("/v1/teachings", params={"name": "red"}).json()[0]
    thumbnail = api.get(f"/v1/thumbnails/{first['id']}")
    assert thumbnail.headers["content-type"] == "image/jpeg"
    assert thumbnail.content.startswith(b"\xff\xd8")


def test_a_refused_image_is_named_by_its_field_with_what_to_do(api):
    for image, message in (
        (b"words", "the image is in no known image format; use a JPEG, PNG, "),
        (b"II*\0 words", "the image is a TIFF file, which is not supported; use a JPEG, PNG, "),
        (b"", "the image is empty"),
        (picture(1, 2, 3)[:60], "the image is damaged "),
    ):
        refused = api.post("/v1/teach", data={"name": "red"}, files={"image": ("x.png", image)})
        assert refused.status_code == 422
        assert refused.json()["error"]["message"].startswith(message)


def test_correct_forget_rename_undo_redo(api):
    teach(api, [0, 1], "cup", source="kitchen")
    teach(api, [1, 0], "pen")
    moved = api.post("/v1/correct", json={"vector": [0, 1], "name": "mug"}).json()
    assert moved == {"name": "mug", "moved_from": ["cup"], "taught": False}
    renamed = api.post("/v1/rename", json={"old": "pen", "new": "pencil"}).json()
    assert (renamed["name"], renamed["count"]) == ("pencil", 1)
    seen = api.post("/v1/would-forget", json={"source": "kitchen"}).json()
    assert (seen["count"], seen["names"]) == (1, {"mug": 1})
    assert api.post("/v1/forget", json={"name": "mug"}).json()["names"] == {"mug": 1}
    assert [row["name"] for row in api.get("/v1/names").json()] == ["pencil"]
    undone = api.post("/v1/undo").json()
    assert (undone["kind"], undone["undone"]) == ("forget", True)
    assert api.get("/v1/undoable").json()["redo"]["id"] == undone["id"]
    assert api.post("/v1/redo").json()["undone"] is False
    assert api.get("/v1/undoable").json()["undo"]["id"] == undone["id"]
    assert api.post(f"/v1/undo?id={undone['id'] - 1}").json()["error"]["kind"] == "ChangedMeanwhile"
    kinds = [row["kind"] for row in api.get("/v1/history").json()]
    assert kinds == ["forget", "rename", "correct", "teach", "teach"]
    erased = api.post("/v1/forget", json={"name": "pencil", "erase": True}).json()
    assert len(erased["receipt"]["erased"]) > 0
    assert api.post("/v1/undo").status_code == 409
    assert api.get("/v1/undoable").json() == {"undo": None, "redo": None}
    assert api.post("/v1/verify").json()["problems"] == []


def test_memories_of_a_service_are_separate(api, memories):
    assert api.get("/v1/memories").json() == ["home", "garden"]
    api.post("/v1/teach?memory=garden", json={"vector": [1, 2, 3], "name": "rose"})
    assert list(memories["garden"].names()) == ["rose"]
    assert not memories["home"].names()
    missing = api.get("/v1/names?memory=cellar")
    assert missing.status_code == 404
    assert missing.json()["error"]["kind"] == "UnknownMemory"


def test_an_export_answers_like_the_memory(api, memories):
    for vector, name in [([0.0, 1.0], "cup"), ([1.0, 0.0], "pen"), ([0.9, 0.2], "pen")]:
        teach(api, vector, name)
    session = onnxruntime.InferenceSession(api.get("/v1/export").content)
    asked = np.array([[0.6, 0.8]], dtype=np.float32)
    shares = session.run(None, {session.get_inputs()[0].name: asked})[-1]
    own = memories["home"].ask(asked[0])
    assert shares.max() == pytest.approx(own[0].probability, abs=1e-5)


def test_a_change_with_a_key_is_made_once(api, memories):
    key = {"idempotency-key": "k1"}
    body = {"vector": [0, 1], "name": "cup", "again": True}
    answers = [api.post("/v1/teach", json=body, headers=key).json() for _ in range(3)]
    assert answers == [{"new": True}] * 3
    assert memories["home"].names()["cup"].count == 1
    other = api.post("/v1/teach", json=body | {"name": "mug"}, headers=key)
    assert other.status_code == 409
    assert other.json()["error"]["kind"] == "KeyReused"
    undo = [api.post("/v1/undo", headers={"idempotency-key": "k2"}) for _ in range(2)]
    assert [answer.status_code for answer in undo] == [200, 200]
    assert undo[0].json() == undo[1].json()


def test_concurrent_teachings_are_not_lost(api, memories, tmp_path, rng):
    vectors = rng.normal(size=(8, 12, 6)).astype(np.float32)
    failures = []

    def one_writer(number):
        for vector in vectors[number]:
            answer = teach(api, vector.astype(float), f"name {number % 3}")
            if answer.json() != {"new": True}:
                failures.append(answer.text)

    threads = [threading.Thread(target=one_writer, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for _ in range(20):
        asked = api.post("/v1/ask", json={"vector": vectors[0, 0].astype(float).tolist()})
        assert asked.status_code == 200
    for thread in threads:
        thread.join(60)
    assert not failures
    taught = memories["home"].teachings()
    assert len(taught) == 96
    stored = {vector.tobytes(): f"name {n % 3}" for n in range(8) for vector in vectors[n]}
    with Memory(tmp_path / "replay") as replay:
        for name, example in counting_examples(memories["home"]._opened.journal):
            assert stored.pop(example.vector.tobytes()) == name
            replay.teach(example.vector, name)
        assert not stored
        mine, theirs = memories["home"].verify(), replay.verify()
        assert mine.problems == theirs.problems == ()
        assert mine.model == theirs.model


def test_events_report_changes(serve):
    api = serve()
    service = api.service
    heard = []

    async def listen():
        events = service.events.listen("home")
        heard.extend([await anext(events) for _ in range(3)])
        await events.aclose()

    task = api.portal.start_task_soon(listen)
    wait_until(lambda: service.events.listeners)
    teach(api, [0, 1], "<b>cup</b>")
    api.post("/v1/teach?memory=garden", json={"vector": [1, 2], "name": "rose"})
    api.post("/v1/undo")
    task.result(timeout=30)
    assert "event: taught" in heard[1]
    assert '"name": "<b>cup</b>"' in heard[1]
    assert "event: undone" in heard[2]
    assert service.events.listeners == 0


def test_metrics_and_health(api):
    teach(api, [0, 1], "cup")
    text = api.get("/metrics").text
    assert 'everlearn_requests_total{route="/v1/teach",status="200"} 1' in text
    assert 'everlearn_teachings{memory="home"} 1' in text
    assert api.get("/healthz", headers={"authorization": ""}).json() == {"status": "ok"}


def test_every_route_is_described(api):
    schema = api.get("/v1/openapi.json").json()
    assert {"/v1/teach", "/v1/ask", "/v1/events", "/healthz"} <= set(schema["paths"])
    kinds = schema["paths"]["/v1/ask"]["post"]["requestBody"]["content"]
    assert set(kinds) == {"application/json", "multipart/form-data", "image/*"}
    for path, methods in schema["paths"].items():
        for operation in methods.values():
            assert operation["description"], path


def test_a_service_is_ready_while_its_memories_answer(serve, memories):
    api = serve(waiting=8)
    for path, status in (("/healthz", "ok"), ("/readyz", "ready")):
        answer = api.get(path, headers={"authorization": ""})
        assert (answer.status_code, answer.json()) == (200, {"status": status})
    memories["garden"].close()
    later = serve(waiting=8).get("/readyz", headers={"authorization": ""})
    assert (later.status_code, later.json()) == (503, {"status": "not ready"})
    assert api.get("/healthz").status_code == 200


def test_durations_are_histograms_that_add_up(api):
    for _ in range(3):
        api.post("/v1/teach", json={"vector": [0, 1], "name": "cup"})
    api.post("/v1/ask", json={"vector": [0, 1]})
    text = api.get("/metrics").text
    for series, count in (
        ('everlearn_request_seconds_{}{{route="/v1/teach"{}}}', 3),
        ('everlearn_request_seconds_{}{{route="/v1/ask"{}}}', 1),
        ('everlearn_queue_seconds_{}{{memory="home"{}}}', 3),
    ):
        assert f"{series.format('count', '')} {count}" in text
        last = series.format("bucket", ',le="+Inf"')
        assert f"{last} {count}" in text
        start = series.partition("{}")[0] + "bucket{" + series.split("{{")[1].partition("{}")[0]
        found = [int(line.split()[-1]) for line in text.splitlines() if line.startswith(start)]
        assert found == sorted(found)
        assert len(found) == 14
