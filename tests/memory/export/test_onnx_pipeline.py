"""One exported file from pixels to names gives the answers of ``ask``."""

import json

import numpy as np
import onnxruntime
import pytest
from PIL import Image

from everlearn import EfficientNetLite0, Memory, Pixels
from everlearn.errors import NeverLearned, NotExportable
from everlearn.images.embedders import as_picture, centre_crop
from everlearn.images.protobuf import message
from everlearn.memory.export.onnx_proto import fields, number, text
from everlearn.memory.model.conformal import Acceptance


def pictures(rng, n):
    """Plain colours with noise, which the network can distinguish."""
    colours = np.array([[200, 40, 40], [40, 180, 40], [40, 60, 200]])
    for index in range(n):
        kind = index % 3
        noise = rng.normal(scale=25, size=(90, 120, 3))
        yield np.clip(colours[kind] + noise, 0, 255).astype(np.uint8), ("rot", "grün", "blau")[kind]


@pytest.fixture(scope="module", params=["float32", "int8"])
def exported(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("chain")
    rng = np.random.default_rng(5)
    memory = Memory(folder / "memory", embedder=EfficientNetLite0(precision=request.param))
    memory.teach_many(list(pictures(rng, 24)))
    memory.export(folder / "chain.onnx", with_embedder=True)
    yield memory, folder / "chain.onnx"
    memory.close()


def asked(session, picture):
    meta = session.get_modelmeta().custom_metadata_map
    square = centre_crop(as_picture(picture), int(meta["size"]), float(meta["crop"]))
    name, shares, unknown, p = session.run(None, {"pixels": np.asarray(square)[None]})
    return name[0], dict(zip(json.loads(meta["names"]), shares[0], strict=True)), unknown[0], p[0]


def test_the_file_answers_like_ask(exported):
    memory, file = exported
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(6)
    unknowns = [rng.integers(0, 255, size=(64, 64, 3), dtype=np.uint8) for _ in range(3)]
    for picture in [p for p, _ in pictures(rng, 9)] + unknowns:
        name, shares, unknown, p = asked(session, picture)
        answers = memory.ask(picture, top=None)
        assert name == answers[0].name
        for answer in answers:
            assert shares[answer.name] == pytest.approx(answer.probability, abs=2e-3)
        assert p == pytest.approx(answers.p_value, abs=1e-6)
        assert unknown == answers.unknown


def test_many_pictures_at_once_are_answered_as_one_by_one(exported):
    _, file = exported
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(7)
    squares = np.stack(
        [np.asarray(Image.fromarray(p).resize((224, 224))) for p, _ in pictures(rng, 4)]
    )
    together = session.run(None, {"pixels": squares})
    for index, square in enumerate(squares):
        alone = session.run(None, {"pixels": square[None]})
        assert alone[0][0] == together[0][index]
        assert np.allclose(alone[1][0], together[1][index], atol=1e-5)


def test_exported_ranks_equal_those_of_acceptance(rng):
    scores, nearest = rng.normal(size=240), np.repeat([3, 5, 9], [120, 110, 10])
    acceptance = Acceptance(scores, nearest)
    names = np.array([3, 4, 5, 9])
    group, ranks, counts = acceptance.table(names)
    for score in rng.normal(size=20):
        for place, name in enumerate(names):
            through = (ranks[group[place]] <= score).sum()
            p = (through + 1) / (counts[group[place]] + 1)
            assert p == pytest.approx(acceptance.p_value(score, int(name)))
            low = score < acceptance.thresholds(0.9)[group[place]]
            assert low == (score < acceptance.threshold(0.9, int(name)))


def test_a_file_that_is_not_onnx_is_refused(tmp_path):
    with Memory(tmp_path / "memory", embedder=Pixels(size=4)) as memory:
        with pytest.raises(NeverLearned):
            memory.export(tmp_path / "chain.onnx", with_embedder=True)
        memory.teach(np.zeros((9, 9, 3), dtype=np.uint8), "black")
        with pytest.raises(NotExportable, match="an embedder that is an ONNX file"):
            memory.export(tmp_path / "chain.onnx", with_embedder=True)
        assert not (tmp_path / "chain.onnx").exists()


def test_fields_are_read_as_they_were_written():
    body = number(1, 300) + text(2, "Tasse ☕") + message(3, b"") + b"\x25\x01\x02\x03\x04"
    assert list(fields(body)) == [
        (1, 300),
        (2, "Tasse ☕".encode()),
        (3, b""),
        (4, b"\x01\x02\x03\x04"),
    ]
