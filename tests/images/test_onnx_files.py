"""Preprocessing in an ONNX file is read; if it is missing, the error says what to give."""

import json

import numpy as np
import pytest

from everlearn.errors import InvalidParameter, NotAModel
from everlearn.images.by_name import matching_embedder
from everlearn.images.embedders import OnnxEmbedder, as_picture

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper  # noqa: E402

FLOAT = TensorProto.FLOAT


@pytest.fixture
def picture(rng):
    return rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)


def write(path, nodes, shape, outputs, *, kind=FLOAT, name="pixels", metadata=None):
    taken = helper.make_tensor_value_info(name, kind, shape)
    given = [helper.make_tensor_value_info(out, FLOAT, form) for out, form in outputs]
    graph = helper.make_graph(nodes, "tiny", [taken], given)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    for key, value in (metadata or {}).items():
        entry = model.metadata_props.add()
        entry.key, entry.value = key, value
    path.write_bytes(model.SerializeToString())
    return path


def channels_first(path, **more):
    """A model that returns the mean of each channel."""
    nodes = [helper.make_node("ReduceMean", ["pixels"], ["v"], axes=[2, 3], keepdims=0)]
    return write(path, nodes, ["n", 3, 8, 8], [("v", ["n", 3])], **more)


def channels_last(path, **more):
    nodes = [helper.make_node("ReduceMean", ["pixels"], ["v"], axes=[1, 2], keepdims=0)]
    return write(path, nodes, ["n", 8, 8, 3], [("v", ["n", 3])], **more)


@pytest.mark.parametrize("layout", [channels_first, channels_last])
def test_name_size_and_layout_are_read_from_the_file(tmp_path, picture, layout):
    embedder = OnnxEmbedder(layout(tmp_path / "model.onnx"), crop=1.0, mean=10.0, scale=2.0)
    expected = (picture.mean(axis=(0, 1)) - 10.0) / 2.0
    assert np.allclose(embedder.embed([picture])[0], expected, atol=1e-3)


@pytest.mark.parametrize(
    "metadata",
    [
        {"image_mean": "[0.5, 0.25, 0.1]", "image_std": "[0.2, 0.5, 0.4]"},
        {"mean": "[127.5, 63.75, 25.5]", "std": "[51, 127.5, 102]"},
    ],
)
def test_scaling_is_read_from_metadata(tmp_path, picture, metadata):
    path = channels_first(tmp_path / "model.onnx", metadata=metadata)
    expected = (picture.mean(axis=(0, 1)) / 255 - [0.5, 0.25, 0.1]) / [0.2, 0.5, 0.4]
    assert np.allclose(OnnxEmbedder(path, crop=1.0).embed([picture])[0], expected, atol=1e-3)


def test_scaling_and_crop_are_read_from_the_file_beside_it(tmp_path):
    config = {
        "image_mean": [0.5, 0.5, 0.5],
        "image_std": [0.25, 0.25, 0.25],
        "do_center_crop": True,
        "size": {"shortest_edge": 256},
        "crop_size": {"height": 224, "width": 224},
    }
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(config))
    embedder = OnnxEmbedder(channels_first(tmp_path / "model.onnx"))
    assert np.allclose(embedder.mean, 127.5)
    assert np.allclose(embedder.scale, 63.75)
    assert embedder.crop == 0.875
    plain = config | {"do_normalize": False}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(plain))
    assert float(OnnxEmbedder(tmp_path / "model.onnx").scale) == pytest.approx(255.0)
    invalid = plain | {"rescale_factor": 0}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(invalid))
    with pytest.raises(NotAModel, match="preprocessing"):
        OnnxEmbedder(tmp_path / "model.onnx")


def test_missing_preprocessing_raises_a_named_error(tmp_path):
    path = channels_first(tmp_path / "model.onnx")
    with pytest.raises(InvalidParameter, match=r"give mean= \(--mean\)"):
        OnnxEmbedder(path)
    with pytest.raises(InvalidParameter, match=r"give scale= \(--scale\)"):
        OnnxEmbedder(path, mean=127.0)
    nodes = [helper.make_node("ReduceMean", ["pixels"], ["v"], axes=[2, 3], keepdims=0)]
    free = write(tmp_path / "free.onnx", nodes, ["n", 3, "h", "w"], [("v", ["n", 3])])
    with pytest.raises(InvalidParameter, match="any size"):
        OnnxEmbedder(free, mean=0.0, scale=1.0)
    assert OnnxEmbedder(free, mean=0.0, scale=1.0, size=12).size == 12


@pytest.mark.parametrize("text", ["[" * 100_000, "[1, 2]", "1e999", '"wide"', "[NaN, 1, 1]"])
def test_invalid_metadata_raises_a_named_error(tmp_path, text):
    path = channels_first(tmp_path / "model.onnx", metadata={"mean": text, "std": "[1, 1, 1]"})
    with pytest.raises(NotAModel, match="preprocessing"):
        OnnxEmbedder(path)


def test_a_model_that_takes_bytes_scales_them_itself(tmp_path, picture):
    nodes = [
        helper.make_node("Cast", ["pixels"], ["as_float"], to=FLOAT),
        helper.make_node("ReduceMean", ["as_float"], ["v"], axes=[2, 3], keepdims=0),
    ]
    path = write(
        tmp_path / "m.onnx", nodes, ["n", 3, 8, 8], [("v", ["n", 3])], kind=TensorProto.UINT8
    )
    got = OnnxEmbedder(path, crop=1.0).embed([picture])[0]
    assert np.allclose(got, picture.mean(axis=(0, 1)), atol=1e-3)


def test_a_vector_output_is_preferred_and_tokens_are_averaged(tmp_path, picture):
    """As in models of transformers: tokens first, then the vector of the picture."""
    shape = helper.make_tensor("shape", TensorProto.INT64, [3], [0, 3, 64])
    tokens = [
        helper.make_node("Constant", [], ["shape"], value=shape),
        helper.make_node("Reshape", ["pixels", "shape"], ["flat"]),
        helper.make_node("Transpose", ["flat"], ["last_hidden_state"], perm=[0, 2, 1]),
    ]
    pooled = helper.make_node("ReduceMax", ["pixels"], ["pooler_output"], axes=[2, 3], keepdims=0)
    hidden = ("last_hidden_state", ["n", 64, 3])
    both = write(
        tmp_path / "both.onnx",
        [*tokens, pooled],
        ["n", 3, 8, 8],
        [hidden, ("pooler_output", ["n", 3])],
    )
    only_tokens = write(tmp_path / "tokens.onnx", tokens, ["n", 3, 8, 8], [hidden])
    scaled = {"crop": 1.0, "mean": 0.0, "scale": 1.0}
    got = OnnxEmbedder(both, **scaled).embed([picture])[0]
    assert np.allclose(got, picture.max(axis=(0, 1)))
    got = OnnxEmbedder(only_tokens, **scaled).embed([picture])[0]
    assert np.allclose(got, picture.mean(axis=(0, 1)), atol=1e-3)


def test_a_model_with_other_inputs_lists_them(tmp_path):
    nodes = [helper.make_node("Identity", ["pixels"], ["v"])]
    path = write(tmp_path / "m.onnx", nodes, ["n", 7], [("v", ["n", 7])])
    with pytest.raises(NotAModel, match=r"it takes pixels tensor\(float\) \['n', 7\]"):
        OnnxEmbedder(path)


def clip(path, *, batch="n", kind=FLOAT):
    """Takes text and pictures; gives the mean of each channel plus the first token."""
    inputs = [
        helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["texts", "length"]),
        helper.make_tensor_value_info("pixel_values", kind, [batch, 3, "height", "width"]),
        helper.make_tensor_value_info("attention_mask", TensorProto.INT64, ["texts", "length"]),
    ]
    nodes = [
        helper.make_node("Cast", ["input_ids"], ["words"], to=kind),
        helper.make_node("Cast", ["attention_mask"], ["mask"], to=kind),
        helper.make_node("Mul", ["words", "mask"], ["masked"]),
        helper.make_node("ReduceMean", ["masked"], ["text_embeds"], axes=[1], keepdims=1),
        helper.make_node("ReduceMean", ["pixel_values"], ["image_embeds"], axes=[2, 3], keepdims=0),
    ]
    given = [
        helper.make_tensor_value_info("text_embeds", kind, ["texts", 1]),
        helper.make_tensor_value_info("image_embeds", kind, [batch, 3]),
    ]
    graph = helper.make_graph(nodes, "clip", inputs, given)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    return path


@pytest.mark.parametrize("kind", [FLOAT, TensorProto.FLOAT16])
@pytest.mark.parametrize("batch", ["n", 1])
def test_a_model_of_pictures_and_text_works_unchanged(tmp_path, picture, kind, batch):
    path = clip(tmp_path / "model.onnx", batch=batch, kind=kind)
    embedder = OnnxEmbedder(path, size=8, crop=1.0, mean=0.0, scale=255.0)
    expected = np.stack([image.mean(axis=(0, 1)) / 255.0 for image in (picture, 255 - picture)])
    batch_of_two = np.stack([embedder.prepare(as_picture(i)) for i in (picture, 255 - picture)])
    assert np.allclose(embedder.run(batch_of_two), expected, atol=2e-3)
    assert not embedder.plain


def test_a_dynamic_size_is_read_from_the_file_beside_the_model(tmp_path):
    path = clip(tmp_path / "model.onnx")
    config = {"size": {"shortest_edge": 20}, "crop_size": {"height": 16, "width": 16},
            "do_center_crop": True, "image_mean": [0, 0, 0], "image_std": [1, 1, 1]}  # fmt: skip
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(config))
    embedder = OnnxEmbedder(path)
    assert (embedder.size, embedder.crop) == (16, 0.8)
    assert OnnxEmbedder(path, size=8).size == 8


@pytest.mark.parametrize("tokens", ["mean", "first", "rest"])
def test_tokens_are_pooled_as_requested(tmp_path, picture, tokens):
    """Three tokens: the channel means, times one, two and three."""
    factors = helper.make_tensor("factors", FLOAT, [1, 3, 1], [1.0, 2.0, 3.0])
    nodes = [
        helper.make_node("ReduceMean", ["pixels"], ["v"], axes=[2, 3], keepdims=0),
        helper.make_node("Constant", [], ["factors"], value=factors),
        helper.make_node("Constant", [], ["one"], value=helper.make_tensor("one", 7, [1], [1])),
        helper.make_node("Unsqueeze", ["v", "one"], ["row"]),
        helper.make_node("Mul", ["row", "factors"], ["last_hidden_state"]),
    ]
    outputs = [("v", ["n", 3]), ("last_hidden_state", ["n", 3, 3])]
    path = write(tmp_path / "model.onnx", nodes, ["n", 3, 8, 8], outputs)
    embedder = OnnxEmbedder(path, crop=1.0, mean=0.0, scale=255.0, tokens=tokens)
    factor = {"mean": 2.0, "first": 1.0, "rest": 2.5}[tokens]
    expected = factor * picture.mean(axis=(0, 1)) / 255.0
    assert np.allclose(embedder.embed([picture])[0], expected, atol=1e-3)
    assert embedder.name.endswith(f" {tokens}")
    assert matching_embedder(embedder.name, path).name == embedder.name
    with pytest.raises(InvalidParameter, match="'mean', 'first' or 'rest'"):
        OnnxEmbedder(path, mean=0.0, scale=1.0, tokens="last")


def test_tokens_of_a_model_without_tokens(tmp_path):
    with pytest.raises(InvalidParameter, match="for models with outputs"):
        OnnxEmbedder(channels_first(tmp_path / "model.onnx"), mean=0.0, scale=1.0, tokens="first")
