"""Following things over frames: tracks, events, views that can be taught, and the commands."""

import json
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from everlearn.cli.app import app
from everlearn.errors import EverlearnError, InvalidInput
from everlearn.images.video import read_frames
from everlearn.regions import region_embedder
from everlearn.regions.annotations import read_annotations
from tests.memory.test_finding import SquareFinder, SquareProposer, memory_in, scene, square


@pytest.fixture(autouse=True)
def no_networks(monkeypatch):
    monkeypatch.setattr(region_embedder, "Proposer", SquareProposer)
    monkeypatch.setattr(region_embedder, "MainThing", SquareFinder)


@pytest.fixture
def memory(tmp_path):
    with memory_in(tmp_path / "memory") as opened:
        for seed in range(3):
            opened.teach(scene(seed, ("red", 5 * seed, 60)), "red", box=square(5 * seed, 60))
            opened.teach(scene(9 + seed, ("blue", 70, 4 * seed)), "blue", box=square(70, 4 * seed))
        yield opened


def moving(count: int):
    return [scene(70, ("red", 6 * step, 75), ("blue", 78 - 6 * step, 5)) for step in range(count)]


def test_things_keep_their_tracks_and_emit_one_event(memory) -> None:
    frames = list(memory.follow(moving(8)))
    tracks = {"red": set(), "blue": set()}
    for frame in frames[2:]:
        for thing in frame.things:
            if thing.name in tracks and thing.settled:
                tracks[thing.name].add(thing.id)
    assert len(tracks["red"]) == 1
    assert len(tracks["blue"]) == 1
    told = [event for frame in frames for event in frame.events if event.name in tracks]
    assert sorted(event.name for event in told) == ["blue", "red"]
    assert all(event.first for event in told)


def test_a_track_is_taught_from_different_frames(memory) -> None:
    last = list(memory.follow([scene(71, ("green", 40, 40))] * 6))[-1]
    (thing,) = [t for t in last.things if t.box == pytest.approx((1 / 3, 1 / 3, 2 / 3, 2 / 3))]
    # Six equal frames are one view.
    assert len(thing.views) == 1
    summary = memory.teach_many([(view, "green") for view in thing.views])
    assert summary.taught == 1
    assert memory.teachings("green")[0].box == thing.box
    assert memory.ask(scene(72, ("green", 0, 0)), box=square(0, 0))[0].name == "green"
    assert memory.verify().ok


def test_motion_replaces_the_proposer(memory, monkeypatch) -> None:
    def never(self, picture):
        raise AssertionError("the proposer was asked")

    monkeypatch.setattr(SquareProposer, "propose", never)
    frames = list(memory.follow([scene(73), *moving(6)], motion=True))
    assert any(thing.name == "red" for frame in frames for thing in frame.things)


def test_bad_numbers_raise_a_named_error(memory, tmp_path) -> None:
    for wrong in ({"most": 0}, {"most": None}, {"patience": -1}, {"patience": None}):
        with pytest.raises(InvalidInput, match=next(iter(wrong))):
            memory.follow([], **wrong)
    with pytest.raises(EverlearnError):
        list(memory.follow(tmp_path / "missing.mp4"))
    with pytest.raises(EverlearnError):
        list(memory.follow("rtsp://127.0.0.1:9/nothing"))


def test_a_truncated_video_gives_its_frames_and_then_an_error(memory, tmp_path) -> None:
    pytest.importorskip("av", reason="videos are read by PyAV")
    from everlearn.regions.drawing import VideoFile

    with VideoFile(tmp_path / "clip.avi", 10) as video:
        for frame in moving(12):
            video.write(frame)
    whole = list(read_frames(tmp_path / "clip.avi", 0.1))
    assert len(whole) == 12
    assert whole[3].opened().shape == (120, 120, 3)
    data = (tmp_path / "clip.avi").read_bytes()
    (tmp_path / "half.avi").write_bytes(data[: len(data) // 2])
    seen = 0
    try:
        for _ in memory.follow(tmp_path / "half.avi", every=0.1):
            seen += 1
    except EverlearnError:
        pass
    assert 0 < seen < 12
    assert memory.verify().ok


def test_views_of_a_video_are_forgotten_by_its_path(memory, tmp_path, monkeypatch) -> None:
    pytest.importorskip("av", reason="videos are read by PyAV")
    clip = tmp_path / "clip.mkv"
    recorded(clip, [scene(71, ("green", 40, 40))] * 3)
    monkeypatch.chdir(tmp_path)
    for path in (clip, "clip.mkv"):
        last = list(memory.follow(path, every=0.1))[-1]
        views = [view for thing in last.things for view in thing.views]
        assert memory.teach_many((view, "green") for view in views).taught > 0
        sources = {one.source for one in memory.teachings("green")}
        assert all(source.startswith(f"{clip}/") for source in sources)
        assert memory.forget(source=str(clip)).names == {"green": len(views)}


@contextmanager
def streamed(data: bytes, claimed: int):
    """The address of a stream that sends some bytes, a little at a time, and then hangs up."""

    class Camera(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "video/x-matroska")
            self.send_header("Content-Length", str(claimed))
            self.end_headers()
            with suppress(OSError):
                for start in range(0, len(data), 1500):
                    self.wfile.write(data[start : start + 1500])
                    self.wfile.flush()

        def log_message(self, *arguments) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Camera)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/live"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def recorded(path, frames) -> bytes:
    from everlearn.regions.drawing import VideoFile

    with VideoFile(path, 10) as video:
        for frame in frames:
            video.write(frame)
    return path.read_bytes()


def test_a_live_stream_is_followed_like_a_file(memory, tmp_path) -> None:
    pytest.importorskip("av", reason="videos are read by PyAV")
    data = recorded(tmp_path / "clip.mkv", moving(10))
    with streamed(data, claimed=len(data)) as address:
        live = list(memory.follow(address, every=0.1))
    filed = list(memory.follow(tmp_path / "clip.mkv", every=0.1))
    assert [[t.box for t in frame.things] for frame in live] == [
        [t.box for t in frame.things] for frame in filed
    ]
    assert {thing.name for thing in live[-1].things} >= {"red", "blue"}


def test_a_live_stream_that_disconnects_gives_its_frames(memory, tmp_path) -> None:
    pytest.importorskip("av", reason="videos are read by PyAV")
    data = recorded(tmp_path / "clip.mkv", moving(12))
    before = len(memory.teachings("red"))
    seen = 0
    with streamed(data[: len(data) // 2], claimed=len(data)) as address, suppress(EverlearnError):
        for _ in memory.follow(address, every=0.1):
            seen += 1
    assert 0 < seen < 12
    assert len(memory.teachings("red")) == before
    assert memory.verify().ok


def ask(folder, *words):
    arguments = ["-m", str(folder), *map(str, words)]
    return CliRunner().invoke(app, arguments)


def test_annotations_are_taught_found_drawn_and_exported(tmp_path) -> None:
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    annotations = []
    for number, (name, left) in enumerate([("red", 0), ("red", 20), ("blue", 60), ("blue", 75)]):
        Image.fromarray(scene(number, (name, left, 30))).save(pictures / f"{number}.png")
        annotations.append(
            {"id": number, "image_id": number, "category_id": 1 + (name == "blue"),
             "bbox": [left, 30, 40, 40]}
        )  # fmt: skip
    images = [
        {"id": number, "file_name": f"{number}.png", "width": 120, "height": 120}
        for number in range(4)
    ]
    categories = [{"id": 1, "name": "red"}, {"id": 2, "name": "blue"}]
    file = pictures / "boxes.json"
    file.write_text(
        json.dumps({"images": images, "categories": categories, "annotations": annotations})
    )
    folder = tmp_path / "m"
    with memory_in(folder) as memory:
        memory.teach(scene(90, ("green", 40, 40)), "green", box=square(40, 40))
    planned = ask(folder, "teach", "--boxes", file, "--plan", "--json")
    assert json.loads(planned.stdout)["names"] == {"red": 2, "blue": 2}
    done = ask(folder, "teach", "--boxes", file, "--json")
    assert json.loads(done.stdout)["taught"] == 4
    info = json.loads(ask(folder, "info", "--json").stdout)
    assert (info["regions"], info["teachings"]) == ("things", 5)
    refused = ask(folder, "--network", "pixels-6", "find", pictures / "0.png")
    assert "WrongEmbedder" in str(refused.exception) or refused.exit_code == 1
    both = tmp_path / "both.png"
    Image.fromarray(scene(60, ("red", 5, 70), ("blue", 75, 5))).save(both)
    found = ask(folder, "find", both, "--json", "--out", tmp_path / "drawn")
    (said,) = json.loads(found.stdout)
    assert {thing["answers"][0]["name"] for thing in said["things"][:2]} == {"red", "blue"}
    drawn = np.asarray(Image.open(tmp_path / "drawn" / "both.png"))
    assert (drawn != scene(60, ("red", 5, 70), ("blue", 75, 5))).any()
    for kind in ("coco", "voc", "yolo"):
        target = tmp_path / (f"out.{kind}.json" if kind == "coco" else f"out-{kind}")
        assert ask(folder, "export", "--boxes", kind, target).exit_code == 0
        again = read_annotations(target, images=pictures)
        assert sorted(name for picture in again for name, _ in picture.things) == [
            "blue", "blue", "red", "red",
        ]  # fmt: skip
    where = json.loads(ask(folder, "ask", "--where", both, "--json").stdout)
    assert where[0]["box"]
    part = json.loads(ask(folder, "ask", "--box", "5,70,45,110", both, "--json").stdout)
    assert part[0]["answers"][0]["name"] == "red"
    one = ask(folder, "teach", both, "--as", "red", "--box", "5,70,45,110", "--json")
    assert json.loads(one.stdout)["taught"] == 1
    comparison = ask(folder, "compare-regions", "--json")
    assert comparison.exit_code == 0, repr(comparison.exception)
    compared = json.loads(comparison.stdout)
    assert {row["regions"] for row in compared} == {"whole", "main"}
    assert ask(folder, "reembed").exit_code == 2
    assert ask(folder, "reembed", "--regions", "main", "--yes").exit_code == 0
    missing = ask(folder, "find", tmp_path / "nothing.png", "--json")
    assert missing.exit_code == 1
    assert "error" in json.loads(missing.stdout)[0]


def test_the_command_follows_a_video(tmp_path, memory) -> None:
    pytest.importorskip("av", reason="videos are read by PyAV")
    from everlearn.regions.drawing import VideoFile

    with VideoFile(tmp_path / "clip.avi", 10) as video:
        for frame in moving(6):
            video.write(frame)
    memory.close()
    words = ["follow", tmp_path / "clip.avi", "--every", "0.1", "--out", tmp_path / "seen.avi"]
    done = ask(memory.path, *words, "--frames", "5")
    assert done.exit_code == 0, done.output
    assert len(list(read_frames(tmp_path / "seen.avi", 0.01))) == 5


def test_drawn_copies_never_overwrite_input_files(tmp_path, memory) -> None:
    """Neither the images nor another copy."""
    memory.close()
    files = [tmp_path / folder / "1.png" for folder in ("a", "b")]
    for seed, file in enumerate(files):
        file.parent.mkdir()
        Image.fromarray(scene(seed, ("red", 10, 20))).save(file)
    before = [file.read_bytes() for file in files]
    for words in ([files[0], "--out", tmp_path / "a"], [*files, "--out", tmp_path / "drawn"]):
        refused = ask(memory.path, "find", *words)
        assert refused.exit_code == 1
        assert "--out" in refused.output or "once for each folder" in refused.output
    assert [file.read_bytes() for file in files] == before
    assert not (tmp_path / "drawn").exists()


def test_a_followed_video_is_never_overwritten(tmp_path, memory) -> None:
    pytest.importorskip("av", reason="videos are read by PyAV")
    from everlearn.regions.drawing import VideoFile

    clip = tmp_path / "clip.avi"
    with VideoFile(clip, 10) as video:
        for frame in moving(6):
            video.write(frame)
    before = clip.read_bytes()
    memory.close()
    refused = ask(memory.path, "follow", clip, "--out", tmp_path / "a" / ".." / "clip.avi")
    assert refused.exit_code == 1
    assert clip.read_bytes() == before
    # A source that cannot be read leaves no empty video behind.
    out = tmp_path / "seen.avi"
    assert ask(memory.path, "follow", tmp_path / "missing.avi", "--out", out).exit_code == 1
    assert not out.exists()


def test_the_commands_keep_unknown_things(tmp_path, memory) -> None:
    file = tmp_path / "green.png"
    Image.fromarray(scene(70, ("green", 40, 40))).save(file)
    memory.close()
    assert ask(memory.path, "find", file, "--remember").exit_code == 0
    (group,) = json.loads(ask(memory.path, "strangers", "--json").stdout)
    assert group["sources"] == [str(file)]
    named = ask(memory.path, "name", str(group["id"]), "green")
    assert named.exit_code == 0, named.output
    (taught,) = json.loads(ask(memory.path, "show", "green", "--json").stdout)
    assert taught["box"] == pytest.approx([1 / 3, 1 / 3, 2 / 3, 2 / 3], abs=1e-6)
