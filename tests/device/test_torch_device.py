"""Torch in particular: gradients, bfloat16, loaders, and inference mode."""

import numpy as np
import pytest

from everlearn import RecursiveRLSC, StreamingLDA
from everlearn.errors import WrongKind

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("array_api_compat", reason="array-api-compat is not installed")

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


@pytest.fixture(params=DEVICES)
def device(request):
    return torch.device(request.param)


def taught(device, rows, labels):
    return StreamingLDA().to(device).fit(rows, labels)


@pytest.mark.parametrize("kind", ["bfloat16", "float16", "float32", "int32"])
def test_rows_of_any_kind_and_with_gradients(device, rng, kind):
    dtype = getattr(torch, kind)
    rows = torch.tensor(10.0 * rng.normal(size=(60, 4)), device=device).to(dtype)
    plain = rows.cpu().double().numpy()
    rows.requires_grad_(dtype.is_floating_point)
    labels = torch.arange(60, device=device) % 3
    learner = taught(device, rows, labels)
    host = StreamingLDA().fit(plain, np.arange(60) % 3)
    scores = learner.decision_function(rows)
    assert scores.dtype == torch.float64
    assert not scores.requires_grad
    np.testing.assert_allclose(scores.cpu(), host.decision_function(plain), rtol=1e-9, atol=1e-9)
    learner.learn_one(rows[0], labels[0])
    assert learner.predict_one(rows[0]) in (0, 1, 2)


def test_a_learner_taught_in_inference_mode_learns_outside_of_it(device, rng):
    rows = torch.tensor(rng.normal(size=(60, 4)), device=device)
    labels = np.arange(60) % 3
    with torch.inference_mode():
        learner = RecursiveRLSC().to(device).fit(rows * 1.0, labels)
        learner.predict_one(rows[0] * 1.0)
        learner.learn_one(rows[0] * 1.0, 0)
    learner.learn_one(rows[1], 1)
    learner.partial_fit(rows, labels)
    twice = np.concatenate([rows.cpu().numpy(), rows.cpu().numpy()[:2]])
    host = RecursiveRLSC().fit(twice, np.append(labels, [0, 1])).partial_fit(rows.cpu(), labels)
    np.testing.assert_allclose(
        learner.decision_function(rows).cpu(), host.decision_function(rows.cpu()), rtol=1e-8
    )


def test_a_loader_is_an_iterator_of_batches(device, rng):
    X, y = torch.tensor(rng.normal(size=(50, 4))), torch.arange(50) % 3
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, y), batch_size=16)
    learner = StreamingLDA().to(device).partial_fit(loader)
    host = StreamingLDA().fit(X.numpy(), y.numpy())
    np.testing.assert_allclose(learner.decision_function(X), host.decision_function(X), rtol=1e-9)
    plain = StreamingLDA().fit(loader)
    np.testing.assert_allclose(plain.decision_function(X), host.decision_function(X), rtol=1e-9)


def test_tensors_without_usable_numbers_raise_a_named_error(device, rng):
    X = torch.tensor(rng.normal(size=(20, 4)), device=device)
    with pytest.raises(WrongKind, match="meta"):
        StreamingLDA().fit(X.to("meta"), np.arange(20) % 2)
    with pytest.raises(WrongKind, match="to_dense"):
        StreamingLDA().to(device).fit(X.to_sparse(), np.arange(20) % 2)


def test_the_rows_of_the_caller_are_not_changed(device, rng):
    rows = torch.tensor(rng.normal(size=(30, 4)), device=device)
    before = rows.clone()
    learner = taught(device, rows, np.arange(30) % 3)
    scores = learner.decision_function(rows)
    learner.learn_one(rows[0], 1)
    rows.zero_()
    np.testing.assert_allclose(
        taught(device, before, np.arange(30) % 3).decision_function(before).cpu(), scores.cpu()
    )


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@pytest.mark.parametrize("pinned", [False, True])
def test_rows_copied_through_pinned_buffers_are_complete(rng, monkeypatch, tmp_path, pinned):
    monkeypatch.setattr("everlearn.device.device.BLOCK_NUMBERS", 7_000)
    monkeypatch.setattr("everlearn.device.torch_device.FEW_NUMBERS", 0)
    X, y = rng.normal(size=(5_000, 6)).astype(np.float32), rng.integers(0, 9, 5_000)
    host = StreamingLDA().fit(X, y)
    np.save(tmp_path / "rows.npy", X)
    tensor = torch.from_numpy(X)
    sources = [tensor.pin_memory(), tensor.pin_memory().numpy()] if pinned else [tensor, X]
    sources.append(np.load(tmp_path / "rows.npy", mmap_mode="r"))
    sources.append(np.asfortranarray(X))
    for rows in sources:
        learner = StreamingLDA().to("cuda").fit(rows, y)
        np.testing.assert_allclose(
            learner.decision_function(X), host.decision_function(X), rtol=1e-9, atol=1e-9
        )
