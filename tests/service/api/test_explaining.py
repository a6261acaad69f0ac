"""Why, report, unknowns, evaluation and streams over HTTP equal those of the Memory."""

import json

import pytest

from everlearn import Client, Memory, Pixels, errors
from everlearn.memory.insight.evaluate import evaluate
from tests.service.conftest import TOKEN, picture

COLOURS = {"red": (200, 0, 0), "green": (0, 190, 0), "blue": (0, 0, 200)}


@pytest.fixture
def client(live, memories):
    for name, colour in COLOURS.items():
        for shift in range(0, 28, 4):
            memories["home"].teach(picture(*colour, shift=shift), name, source=f"{name}{shift}")
    with Client(live, token=TOKEN) as client:
        yield client


@pytest.fixture
def own(memories):
    return memories["home"]


def test_why_equals_that_of_the_memory(client, own):
    asked = picture(210, 10, 0, shift=14)
    for name in (None, "blue"):
        mine, theirs = own.why(asked, name, top=4), client.why(asked, name, top=4)
        assert mine == theirs
        assert [mine.answer_without(n) for n in (1, 2, 5)] == [
            theirs.answer_without(n) for n in (1, 2, 5)
        ]
    with pytest.raises(errors.UnknownLabel):
        client.why(asked, "mauve")


def test_why_of_a_name_with_one_teaching(client, own):
    own.teach(picture(90, 90, 90), "grey")
    mine, theirs = (memory.why(picture(92, 90, 90), top=30) for memory in (own, client))
    assert mine == theirs


def test_the_report_equals_that_of_the_memory(client, own):
    own.teach(picture(205, 3, 0, shift=20), "blue")  # which the report will doubt
    mine, theirs = own.report(), client.report()
    assert mine.mislabelled
    assert mine == theirs


def test_unknown_pictures_are_kept_named_ignored_and_dropped(client, own):
    unknowns = [picture(250, 250, 40, shift=s) for s in (0, 6, 12)]
    for one in unknowns:
        assert client.ask(one, remember=True).unknown
    client.ask(unknowns[0])
    groups = client.unknowns()
    assert groups == own.unknowns()
    assert sum(group.count for group in groups) == 3
    first = groups[0]
    assert client.unknown_thumbnail(first.id) == own.unknown_thumbnail(first.id)
    assert client.unknown_thumbnail(first.id).startswith(b"\xff\xd8")
    assert client.unknown_thumbnail(999) is None
    assert client.name_unknowns(first.id, "yellow") == first.count
    assert own.names()["yellow"].count == first.count
    for group in client.unknowns():
        client.drop_unknowns(group.id)
    client.forget(name="yellow")
    assert client.ask(unknowns[0], remember=True).unknown
    (group,) = client.unknowns()
    assert client.ignore_unknowns(group.id) == 1
    assert client.ask(unknowns[0]).ignored
    assert client.undo().about == "ignore, 1 unknown picture"
    assert not client.ask(unknowns[0]).ignored
    assert client.redo().about == "ignore, 1 unknown picture"
    assert client.drop_unknowns(group.id) == 1
    assert client.would_undo().about == "drop, 1 unknown picture"
    client.undo()
    assert client.unknowns() == own.unknowns() != []
    client.redo()
    with pytest.raises(errors.InvalidInput, match="no group"):
        client.drop_unknowns(group.id)


def test_evaluate_counts_as_the_memory_does(client, own, tmp_path):
    files = []
    for name, colour in (COLOURS | {"mauve": (140, 90, 200)}).items():
        for shift in (5, 9):
            file = tmp_path / f"{name}{shift}.png"
            file.write_bytes(picture(*colour, shift=shift))
            files.append((file, name))
    files.append((tmp_path / "red5.png", "blue"))
    files.append((tmp_path / "blue9.png", " Blue"))  # a name in another spelling
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"no picture")
    files.append((broken, "red"))
    own.teach(files[0][0], "red")
    mine, theirs = evaluate(own, files), client.evaluate(files)
    ((file, told),) = mine.unreadable
    # The service knows the file by its bytes alone.
    mine.unreadable = [(file, told.replace(str(broken), "the image"))]
    assert vars(mine) == vars(theirs)
    assert mine.taught == [str(tmp_path / "red5.png")] * 2


def test_evaluating_an_empty_memory_is_refused(live):
    with Client(live, token=TOKEN) as client, pytest.raises(errors.NeverLearned):
        client.evaluate([([1.0, 0.0], "cup")])
    with Client(live, token=TOKEN) as client, pytest.raises(errors.NeverLearned):
        client.report()


def test_frames_are_answered_one_after_the_other(client, own):
    frames = [picture(200, 0, 0, shift=s) for s in range(3)] + [picture(0, 0, 200)]
    answers = list(client.ask_stream(frames))
    assert [a[0].name for a in answers] == ["red", "red", "red", "blue"]
    assert [list(a) for a in answers] == [list(own.ask(frame)) for frame in frames]
    with pytest.raises(errors.NotAnImage):
        list(client.ask_stream([b"no image"]))
    with (
        Client(client.address, token="some-other-token-1") as other,
        pytest.raises(errors.CannotReach),
    ):
        list(other.ask_stream(frames))


def test_a_stream_from_another_site_is_refused(client):
    from websockets.exceptions import InvalidStatus
    from websockets.sync.client import connect

    address = client.address.replace("http", "ws") + "/v1/ask/stream"
    good = {"authorization": f"Bearer {TOKEN}"}
    for headers in ({}, good | {"origin": "http://evil.example"}):
        with pytest.raises(InvalidStatus) as refused:
            connect(address, additional_headers=headers, proxy=None)
        assert refused.value.response.status_code == 403
    with connect(address, additional_headers=good, proxy=None) as socket:
        for text, kind in (("{", "InvalidInput"), ('{"vector": [1]}', "InvalidInput")):
            socket.send(text)
            assert json.loads(socket.recv())["error"]["kind"] in (
                kind,
                "WrongWidth",
                "WrongEmbedder",
            )
        socket.send(picture(200, 0, 0))
        assert json.loads(socket.recv())["answers"][0]["name"] == "red"


def test_a_check_reports_progress_and_does_not_block(client, own, tmp_path):
    report = client.report()
    with Memory(tmp_path / "other", embedder=Pixels(size=8, colour=True)) as memory:
        for name, colour in COLOURS.items():
            for shift in range(0, 28, 4):
                memory.teach(picture(*colour, shift=shift), name, source=f"{name}{shift}")
        assert memory.report().per_name == report.per_name
