"""Sources: images of a folder are found and decoded under limits; missing ones are reported."""

import numpy as np
import pytest
from PIL import EpsImagePlugin, Image

from everlearn.errors import MissingData, NotAnImage, TooFewExamples, WrongShape
from everlearn.streams import sources
from everlearn.streams.examples import Examples


def write_image(path, value=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((8, 8, 3), value, np.uint8)).save(path)


def test_imagenet_folders_and_pixels(tmp_path):
    for part in ("train", "val"):
        write_image(tmp_path / part / "n01" / "a.png", 200)
        write_image(tmp_path / part / "n02" / "b.png", 7)
    data = sources.split_folders(tmp_path)
    assert data.test.y.tolist() == ["n01", "n02"]
    images = sources.read_images(data.train.X, side=4)
    assert images.shape == (2, 4, 4, 3)
    assert images[:, 0, 0, 0].tolist() == [200, 7]
    assert sources.read_images(data.train.X, side=4, grey=True)[:, 0, 0].tolist() == [200, 7]
    with pytest.raises(MissingData, match="train and val"):
        sources.split_folders(tmp_path / "train")
    (tmp_path / "broken.png").write_bytes(b"nothing")
    with pytest.raises(NotAnImage, match=r"broken\.png"):
        sources.read_images([str(tmp_path / "broken.png")], side=4)


def test_a_loader_of_tensors():
    class Tensor:
        def __init__(self, values):
            self.values = np.asarray(values)

        def numpy(self):
            return self.values

    loader = [(Tensor(np.ones((2, 3, 4))), Tensor([0, 1])), (Tensor(np.zeros((1, 3, 4))), [2])]
    examples = sources.from_loader(loader)
    assert examples.X.shape == (3, 12)
    assert examples.y.tolist() == [0, 1, 2]
    with pytest.raises(TooFewExamples, match="yields no batch"):
        sources.from_loader([])


def test_examples_that_do_not_match_are_refused():
    with pytest.raises(WrongShape, match="instances"):
        Examples(np.zeros((3, 2)), np.arange(3), np.arange(2))


def test_examples_as_a_stream():
    examples = Examples(np.arange(10.0)[:, None], np.arange(10))
    batches = list(examples.batches(np.array([4, 2, 0]), size=2))
    assert [y.tolist() for _, y in batches] == [[4, 2], [0]]
    assert [X.ravel().tolist() for X, _ in batches] == [[4.0, 2.0], [0.0]]


def test_a_program_named_like_a_picture_is_never_run(tmp_path, monkeypatch):
    """PostScript is a program: Pillow would hand it to Ghostscript, whatever the file is called."""
    ran = []

    def interpreter(*_args, **_more):
        ran.append(True)
        return Image.new("RGB", (8, 8)).im

    monkeypatch.setattr(EpsImagePlugin, "Ghostscript", interpreter)
    folder = tmp_path / "cat"
    folder.mkdir()
    program = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\n"
    (folder / "a.png").write_bytes(program)
    found = sources.image_folder(tmp_path)
    with pytest.raises(NotAnImage, match=r"a\.png"):
        sources.read_images(found.X, side=4)
    assert not ran
