"""Videos: frames at the right times, and named errors for other files."""

import itertools
from threading import Event
from types import SimpleNamespace

import numpy as np
import pytest

from everlearn.errors import (
    CannotRead,
    DamagedImage,
    ImageTooLarge,
    InvalidParameter,
    NotAnImage,
)
from everlearn.images import video
from everlearn.images.batches import Embedded, Unreadable, embed_sources
from everlearn.images.decode import Limits
from everlearn.images.embedders import Pixels
from everlearn.images.video import VideoFrame, frames, latest_frames, read_frames
from tests.images.rtsp_camera import rtsp_camera, transport_stream

av = pytest.importorskip("av")

RATE, SECONDS, SIDE = 10, 4, 64


@pytest.fixture(scope="module", params=["mp4", "mkv", "avi"])
def clip(request, tmp_path_factory):
    """Four seconds at ten frames a second; the brightness of a frame tells its time."""
    path = tmp_path_factory.mktemp("clips") / f"clip.{request.param}"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=RATE)
        stream.width = stream.height = SIDE
        stream.pix_fmt = "yuv420p"
        for index in range(RATE * SECONDS):
            picture = np.full((SIDE, SIDE, 3), 40 + 5 * index, dtype=np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode())
    return path


@pytest.mark.parametrize(("every", "moments"), [(1.0, [0, 1, 2, 3]), (1.5, [0, 1.5, 3]), (9, [0])])
def test_frames_have_the_requested_times(clip, every, moments):
    taken = list(frames(clip, every))
    assert [round(frame.seconds, 3) for frame in taken] == moments
    for frame, moment in zip(taken, moments, strict=True):
        assert frame.opened().shape == (SIDE, SIDE, 3)
        assert abs(frame.opened().mean() - (40 + 5 * RATE * moment)) < 6


def test_a_frame_is_embedded_and_identified_by_its_time(clip):
    taken = list(embed_sources(Pixels(size=4), frames(clip, 2.0)))
    assert all(isinstance(found, Embedded) for found in taken)
    assert [str(found.source.__fspath__()) for found in taken] == [
        f"{clip}/0.000s",
        f"{clip}/2.000s",
    ]
    assert len({found.digest for found in taken}) == 2


def test_a_file_that_is_not_a_video_yields_one_error(clip, tmp_path):
    text, playlist, cut = tmp_path / "text.mp4", tmp_path / "list.mp4", tmp_path / "cut.mp4"
    text.write_text("no video")
    playlist.write_text(f"#EXTM3U\n#EXTINF:1,\nfile://{clip}\n")
    cut.write_bytes(clip.read_bytes()[:100])
    for path, error in (
        (text, NotAnImage),
        (playlist, NotAnImage),
        (cut, DamagedImage),
        (tmp_path / "missing.mp4", CannotRead),
    ):
        (only,) = frames(path, 1.0)
        assert isinstance(only.error, error)
        (found,) = embed_sources(Pixels(size=4), [only])
        assert isinstance(found, Unreadable)
        assert path.name in str(found.error)


def test_the_limits_of_images_apply_to_frames(clip):
    (only,) = frames(clip, 1.0, limits=Limits(pixels=SIDE * SIDE - 1))
    assert isinstance(only.error, ImageTooLarge)


@pytest.mark.parametrize("every", [0.0, -1.0, float("nan"), float("inf")])
def test_the_interval_between_frames_is_checked(clip, every):
    with pytest.raises(InvalidParameter, match="more than 0"):
        list(frames(clip, every))


# Live sources.


def brightening(count):
    return [np.full((SIDE, SIDE, 3), 40 + 4 * step, dtype=np.uint8) for step in range(count)]


def test_an_rtsp_stream_gives_its_frames_and_reports_its_end():
    data = transport_stream(brightening(40), RATE)
    with rtsp_camera(data) as port:
        address = f"rtsp://me:secret@127.0.0.1:{port}/garden"
        *taken, last = read_frames(address, 0.2)
    assert isinstance(last.error, CannotRead)
    assert "ended" in str(last.error)
    assert taken
    moments = [frame.seconds for frame in taken]
    assert moments == sorted(set(moments))
    shown = [frame.opened().mean() for frame in taken]
    assert shown == sorted(shown)
    # Addresses are shown without credentials.
    assert "secret" not in str(last.error)
    assert all("secret" not in frame.__fspath__() for frame in (*taken, last))


def test_a_silent_camera_times_out(monkeypatch):
    monkeypatch.setattr(video, "LIVE_SECONDS", 1.5)
    with rtsp_camera(transport_stream(brightening(30), RATE), goes_silent=True) as port:
        *_, last = read_frames(f"rtsp://127.0.0.1:{port}/garden", 0.2)
    assert isinstance(last.error, CannotRead)
    assert "nothing" in str(last.error)


def test_an_unreachable_address_raises_a_named_error():
    (only,) = read_frames("rtsp://me:secret@127.0.0.1:9/garden", 0.2)
    assert isinstance(only.error, CannotRead)
    assert "127.0.0.1:9" in str(only.error)
    assert "secret" not in str(only.error)


def test_a_slow_reader_gets_the_latest_frame():
    taken, produced = Event(), Event()

    def camera():
        yield VideoFrame("camera", 0.0)
        taken.wait()
        for moment in range(1, 51):
            yield VideoFrame("camera", float(moment))
        produced.set()

    seen = latest_frames(camera())
    assert next(seen).seconds == 0.0
    taken.set()
    produced.wait()
    assert [frame.seconds for frame in seen] == [50.0]


def test_an_error_in_the_reader_thread_is_raised():
    def camera():
        yield VideoFrame("camera", 0.0)
        raise RuntimeError("unplugged")

    with pytest.raises(RuntimeError, match="unplugged"):
        list(latest_frames(camera()))


def test_closing_the_iterator_closes_the_camera():
    closed = Event()

    def camera():
        try:
            for moment in itertools.count():
                yield VideoFrame("camera", float(moment))
        finally:
            closed.set()

    seen = latest_frames(camera())
    next(seen)
    seen.close()
    assert closed.wait(60)


def test_after_a_gap_frames_keep_their_interval():
    moments = [0.0, 0.1, 0.2, 5.0, 5.1, 5.2, 5.3, 5.4, 5.5]
    decoded = [SimpleNamespace(width=2, height=2, time=at, rotation=0) for at in moments]
    for frame in decoded:
        frame.to_ndarray = lambda format: np.zeros((2, 2, 3), dtype=np.uint8)
    source = SimpleNamespace(
        streams=SimpleNamespace(video=[None]), decode=lambda stream: iter(decoded)
    )
    taken = [at for at, _ in video._sampled(source, "camera", 0.2, Limits())]
    assert taken == [0.0, 0.2, 5.0, 5.2, 5.4]
