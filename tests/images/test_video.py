"""Videos: frames at the right moments, and named errors from everything else."""

import numpy as np
import pytest

from everlearn.errors import (
    CannotRead,
    DamagedImage,
    ImageTooLarge,
    InvalidParameter,
    NotAnImage,
)
from everlearn.images.batches import Embedded, Unreadable, embed_sources
from everlearn.images.decode import Limits
from everlearn.images.embedders import Pixels
from everlearn.images.video import frames

av = pytest.importorskip("av")

RATE, SECONDS, SIDE = 10, 4, 64


@pytest.fixture(scope="module", params=["mp4", "mkv", "avi"])
def clip(request, tmp_path_factory):
    """Four seconds at ten frames a second that become brighter, so that a frame tells its time."""
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
def test_frames_come_at_their_moments(clip, every, moments):
    taken = list(frames(clip, every))
    assert [round(frame.seconds, 3) for frame in taken] == moments
    for frame, moment in zip(taken, moments, strict=True):
        assert frame.opened().shape == (SIDE, SIDE, 3)
        assert abs(frame.opened().mean() - (40 + 5 * RATE * moment)) < 6


def test_a_frame_is_embedded_and_known_by_its_moment(clip):
    taken = list(embed_sources(Pixels(size=4), frames(clip, 2.0)))
    assert all(isinstance(found, Embedded) for found in taken)
    assert [str(found.source.__fspath__()) for found in taken] == [
        f"{clip}/0.000s",
        f"{clip}/2.000s",
    ]
    assert len({found.digest for found in taken}) == 2


def test_what_is_no_video_gives_one_error_and_stops_nothing(clip, tmp_path):
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


def test_frames_are_bounded_like_images(clip):
    (only,) = frames(clip, 1.0, limits=Limits(pixels=SIDE * SIDE - 1))
    assert isinstance(only.error, ImageTooLarge)


@pytest.mark.parametrize("every", [0.0, -1.0, float("nan"), float("inf")])
def test_the_pause_between_frames_is_checked(clip, every):
    with pytest.raises(InvalidParameter, match="more than 0"):
        list(frames(clip, every))
