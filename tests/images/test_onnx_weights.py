"""ONNX files whose weights are in a file beside them, as torch exports large networks."""

from pathlib import Path

import numpy as np
import pytest

from everlearn import Memory, OnnxEmbedder
from everlearn.errors import CannotRead, NotAModel
from everlearn.images.onnx_weights import with_weights

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")


def network(seed=0):
    """A network from 8 × 8 pixels to five features, with two tensors of weights and a constant."""
    rng = np.random.default_rng(seed)
    helper, numpy_helper = onnx.helper, onnx.numpy_helper
    W = rng.normal(size=(192, 5)).astype(np.float32)
    b = rng.normal(size=5).astype(np.float32)
    constant = numpy_helper.from_array(np.array([0, -1], dtype=np.int64), "shape")
    nodes = [
        helper.make_node("Constant", [], ["shape"], value=constant),
        helper.make_node("Reshape", ["image", "shape"], ["flat"]),
        helper.make_node("MatMul", ["flat", "W"], ["product"]),
        helper.make_node("Add", ["product", "b"], ["vectors"]),
    ]
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("image", onnx.TensorProto.FLOAT, ("n", 3, 8, 8))],
        [helper.make_tensor_value_info("vectors", onnx.TensorProto.FLOAT, ("n", 5))],
        [numpy_helper.from_array(W, "W"), numpy_helper.from_array(b, "b")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def written(folder, seed=0, name="model.onnx"):
    folder.mkdir(exist_ok=True)
    onnx.save_model(
        network(seed),
        str(folder / name),
        save_as_external_data=True,
        location=f"{name}.data",
        size_threshold=0,
        convert_attribute=True,
    )
    return folder / name


def embedder(path):
    return OnnxEmbedder(path, mean=0.0, scale=255.0)


@pytest.fixture
def pictures(rng):
    return [rng.integers(0, 256, (9, 9, 3), dtype=np.uint8) for _ in range(3)]


def test_weights_are_read_beside_the_model_and_nowhere_else(tmp_path, monkeypatch, pictures, rng):
    path = written(tmp_path / "networks")
    (tmp_path / "whole.onnx").write_bytes(network().SerializeToString())
    expected = embedder(tmp_path / "whole.onnx").embed(pictures)
    other_folder = written(tmp_path / "other", seed=1).parent
    monkeypatch.chdir(other_folder)
    assert np.array_equal(embedder(path).embed(pictures), expected)


def test_other_weights_are_another_embedder(tmp_path):
    path = written(tmp_path / "networks")
    before = embedder(path).name
    assert embedder(path).name == before
    other = written(tmp_path / "other", seed=1).with_name("model.onnx.data")
    path.with_name("model.onnx.data").write_bytes(other.read_bytes())
    assert embedder(path).name != before


def test_a_model_with_internal_weights_is_unchanged():
    model = network().SerializeToString()
    assert with_weights(model, Path(__file__)) is model


def test_loaded_weights_equal_those_of_the_onnx_package(tmp_path):
    path = written(tmp_path / "networks")
    ours = onnx.load_model_from_string(with_weights(path.read_bytes(), path))
    theirs = onnx.load(str(path))
    for one, other in zip(ours.graph.initializer, theirs.graph.initializer, strict=True):
        arrays = [onnx.numpy_helper.to_array(tensor) for tensor in (one, other)]
        assert np.array_equal(*arrays)
    onnx.checker.check_model(ours)


@pytest.mark.parametrize("location", ["../model.onnx.data", "/etc/passwd", "", "sub/x", "a\0b"])
def test_paths_outside_the_folder_are_refused(tmp_path, location):
    path = written(tmp_path / "networks")
    model = onnx.load(str(path), load_external_data=False)
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = location
    path.write_bytes(model.SerializeToString())
    with pytest.raises(NotAModel, match="not a file beside it"):
        embedder(path)


def test_linked_truncated_and_missing_weights_raise_a_named_error(tmp_path):
    path = written(tmp_path / "networks")
    data = path.with_name("model.onnx.data")
    whole = data.read_bytes()
    data.write_bytes(whole[:-4])
    with pytest.raises(NotAModel, match="truncated"):
        embedder(path)
    data.unlink()
    with pytest.raises(CannotRead, match="keep the two in one folder"):
        embedder(path)
    (tmp_path / "weights").write_bytes(whole)
    data.symlink_to(tmp_path / "weights")
    with pytest.raises(NotAModel, match="not a file beside it"):
        embedder(path)


def test_weights_are_limited(tmp_path, monkeypatch):
    from everlearn.images import onnx_weights

    path = written(tmp_path / "networks")
    model, size = path.read_bytes(), path.with_name("model.onnx.data").stat().st_size
    monkeypatch.setattr(onnx_weights, "MOST_BYTES", size)
    assert len(with_weights(model, path)) > size
    monkeypatch.setattr(onnx_weights, "MOST_BYTES", size - 1)
    with pytest.raises(NotAModel, match=f"onnx.data has more than {size - 1:,} bytes"):
        with_weights(model, path)


def test_repeated_references_to_weights_count_towards_the_limit(tmp_path, monkeypatch):
    from everlearn.images import onnx_weights

    path = written(tmp_path / "networks")
    model = onnx.load_model(str(path), load_external_data=False)
    size = path.with_name("model.onnx.data").stat().st_size
    for number in range(3):
        model.graph.initializer.add().CopyFrom(model.graph.initializer[0])
        model.graph.initializer[-1].name = f"again {number}"
    monkeypatch.setattr(onnx_weights, "MOST_BYTES", size)
    with pytest.raises(NotAModel, match=r"model\.onnx has more than"):
        with_weights(model.SerializeToString(), path)


def test_export_includes_external_weights(tmp_path, pictures):
    import onnxruntime

    path = written(tmp_path / "networks")
    with Memory(tmp_path / "memory", embedder=embedder(path)) as memory:
        for number, picture in enumerate(pictures):
            for shade in range(1, 5):
                memory.teach(picture // shade, f"thing {number}")
        memory.export(tmp_path / "chain.onnx", with_embedder=True)
    path.with_name("model.onnx.data").unlink()
    session = onnxruntime.InferenceSession((tmp_path / "chain.onnx").read_bytes())
    pixels = np.stack([np.resize(picture, (8, 8, 3)) for picture in pictures])
    names, shares = session.run(["name", "probabilities"], {"pixels": pixels})
    assert set(names) <= {"thing 0", "thing 1", "thing 2"}
    assert np.allclose(shares.sum(axis=1), 1.0, atol=1e-5)
