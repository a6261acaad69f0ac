"""Base training: it learns, it resumes to the same weights, and it says what is wrong."""

import pytest

pytest.importorskip("torch", reason="everlearn.deep needs torch: pip install 'everlearn[torch]'")

import numpy as np
import torch
from PIL import Image

from everlearn.deep.descent import Recipe
from everlearn.deep.pictures import gather
from everlearn.deep.trainer import BaseTrainer, train_base
from everlearn.errors import (
    DamagedModel,
    InvalidParameter,
    NotFinite,
    OtherNetwork,
    OutOfMemory,
    TooFewClasses,
    TooFewExamples,
    WrongKind,
    WrongShape,
)
from everlearn.persistence import load_arrays, save_arrays
from tests.deep.small import SIZE, quick, striped, tiny


def trainer(**settings):
    values = {"size": SIZE, "recipe": quick(), "device": "cpu", "held_out": 0.0}
    return BaseTrainer(tiny(), **(values | settings))


def test_it_learns_what_mean_pixels_do_not_show():
    """Stripes with random phases have the same mean picture, so only a network tells them apart."""
    pictures, labels = striped(24)
    trained = trainer(recipe=quick(epochs=20)).train(pictures, labels)
    asked, truth = striped(20, seed=1)
    assert np.mean(trained.predict(asked) == truth) > 0.9


def test_rate_follows_one_cycle():
    recipe = Recipe(learning_rate=0.4, warm_up=0.25)
    assert [round(recipe.rate(share), 6) for share in (0, 0.125, 0.25, 0.625, 1)] == [
        0,
        0.2,
        0.4,
        0.2,
        0,
    ]


def test_killed_run_ends_with_the_same_weights(tmp_path, stripes):
    class Killed(BaseException):
        pass

    def kill(epoch):
        if epoch.number == 4:
            raise Killed

    settings = {"recipe": quick(epochs=6), "held_out": 0.2, "checkpoint_every": 2}
    whole = trainer(**settings).train(*stripes)
    file = tmp_path / "run.training"
    with pytest.raises(Killed):
        trainer(checkpoint=file, progress=kill, **settings).train(*stripes)
    told = []
    resumed = trainer(checkpoint=file, progress=told.append, **settings).train(*stripes)
    assert [epoch.number for epoch in told] == [3, 4, 5, 6], "it began anew, or skipped epochs"
    assert resumed.held_out == whole.held_out
    for name, value in whole.classifier.state_dict().items():
        assert torch.equal(value, resumed.classifier.state_dict()[name]), name


def test_checkpoint_of_another_training_is_refused(tmp_path, stripes):
    file = tmp_path / "run.training"
    one = quick(epochs=1)
    trainer(checkpoint=file, recipe=one).train(*stripes)
    before = file.read_bytes()
    pictures, labels = stripes
    other = tiny()
    other.layer4 = torch.nn.Sequential(other.layer4[0])
    another = BaseTrainer(other, size=SIZE, recipe=one, held_out=0.0, device="cpu", checkpoint=file)
    with pytest.raises(OtherNetwork, match="network"):
        another.train(*stripes)
    with pytest.raises(OtherNetwork, match="pictures"):
        trainer(checkpoint=file, recipe=one).train(pictures[::-1].copy(), labels[::-1].copy())
    with pytest.raises(OtherNetwork, match="recipe"):
        trainer(checkpoint=file, recipe=quick(epochs=2)).train(*stripes)
    assert file.read_bytes() == before
    file.write_bytes(before[:-40] + bytes(40))
    with pytest.raises(DamagedModel):
        trainer(checkpoint=file, recipe=one).train(*stripes)


@pytest.mark.parametrize(
    "forge",
    [
        lambda d, a: d.clear(),
        lambda d, a: d.update({"belongs to": [1]}),
        lambda d, a: d.update({"epochs done": "many"}),
        lambda d, a: d.update({"epochs done": float("inf")}),
        lambda d, a: d.update(history=5),
        lambda d, a: a.update({"momentum.999": np.zeros(2, np.float32)}),
        lambda d, a: a.update({"momentum.0": np.zeros(2, np.float32)}),
        lambda d, a: [a.pop(key) for key in list(a) if key.startswith("now.")],
        lambda d, a: a.update(
            {k: np.full_like(v, np.nan) for k, v in a.items() if v.dtype.kind == "f"}
        ),
    ],
)
def test_a_forged_checkpoint_raises_a_named_error(tmp_path, stripes, forge):
    file = tmp_path / "run.training"
    one = quick(epochs=1)
    trainer(checkpoint=file, recipe=one).train(*stripes)
    kind, description, arrays = load_arrays(file)
    forge(description, arrays)
    save_arrays(file, kind, description, arrays)
    with pytest.raises((DamagedModel, OtherNetwork)):
        trainer(checkpoint=file, recipe=one).train(*stripes)


def test_patience_ends_training_and_the_best_weights_are_kept(stripes):
    recipe = quick(epochs=40, learning_rate=0.05)
    trained = trainer(recipe=recipe, held_out=0.2, patience=3).train(*stripes)
    scores = [epoch.held_out for epoch in trained.history]
    assert len(scores) < 40
    assert trained.held_out == max(scores)
    assert max(scores) not in scores[-3:]


def test_bad_input_raises_a_named_error(stripes):
    pictures, labels = stripes
    with pytest.raises(TooFewClasses, match="one class, 0"):
        trainer().train(pictures[:9], labels[:9])
    with pytest.raises(TooFewExamples, match="class 9 has one picture"):
        trainer().train(pictures[:10], [0] * 5 + [1] * 4 + [9])
    with pytest.raises(WrongShape, match="60 pictures"):
        trainer().train(pictures, labels[:-1])
    with pytest.raises(WrongKind, match="uint8"):
        trainer().train(pictures.astype(float), labels)
    with pytest.raises(InvalidParameter, match="patience"):
        BaseTrainer(patience=3, held_out=0.0)
    with pytest.raises(NotFinite, match="learning_rate below"):
        trainer(recipe=quick(learning_rate=1e30, momentum=0.0)).train(pictures, labels)


def test_out_of_memory_says_what_to_try(stripes):
    class Hungry(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = tiny()

        def forward(self, pictures):
            if self.training:
                raise torch.OutOfMemoryError("CUDA out of memory")
            return self.inner(pictures)

    with pytest.raises(OutOfMemory, match="batch_size=8"):
        BaseTrainer(Hungry(), size=SIZE, recipe=quick(), held_out=0.0, device="cpu").train(*stripes)


def test_folders_arrays_and_loaders_give_the_same_pictures(tmp_path, stripes):
    pictures, labels = stripes
    for number, (picture, label) in enumerate(zip(pictures, labels, strict=True)):
        (tmp_path / f"kind {label}").mkdir(exist_ok=True)
        Image.fromarray(picture).save(tmp_path / f"kind {label}" / f"{number:03}.png")
    (tmp_path / "kind 0" / "broken.png").write_bytes(b"no picture")
    folder = gather(tmp_path, None, SIZE)
    tensors = torch.from_numpy(pictures).permute(0, 3, 1, 2)
    batches = [(tensors[i : i + 7], torch.from_numpy(labels[i : i + 7])) for i in range(0, 60, 7)]
    floats = [(part / 255.0, names) for part, names in batches]
    assert np.array_equal(folder.pixels, pictures)
    assert folder.labels.tolist() == [f"kind {label}" for label in labels]
    assert [name.endswith("broken.png") for name, _ in folder.unreadable] == [True]
    for found in (gather(batches, None, SIZE), gather(floats, None, SIZE)):
        assert np.array_equal(found.pixels, pictures)
        assert np.array_equal(found.labels, labels)


def test_held_out_pictures_are_a_share_of_each_class(stripes):
    pictures = gather(*stripes, SIZE)
    held = pictures.held_out(0.1, seed=0)
    assert np.bincount(pictures.labels[held]).tolist() == [2, 2, 2]
    assert not pictures.held_out(0.0, seed=0).any()


def test_train_base_gives_an_embedder(stripes):
    embedder = train_base(
        *stripes, network=tiny(), size=SIZE, recipe=quick(epochs=1), device="cpu", held_out=0.0
    )
    assert embedder.embed(stripes[0]).shape == (60, embedder.n_features)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
def test_a_recorded_step_gives_the_gradients_of_the_step_itself():
    """On a GPU, steps of named networks are replayed; the last batch is smaller."""
    from everlearn.deep.captured import CapturedStep
    from everlearn.deep.descent import Shown, classifier_over, on_device, precision

    device = torch.device("cuda")
    pictures, labels = striped(24)
    recipe = quick()
    classifier = on_device(classifier_over(tiny(), 3, SIZE, 0), device).train()
    shown = Shown(pictures, labels, device)
    batch, slots = next(shown.epoch(0, recipe))
    with precision(device):
        loss = torch.nn.functional.cross_entropy(
            classifier(batch), slots, label_smoothing=recipe.label_smoothing
        )
    loss.backward()
    loss = loss.detach()  # the graph of this step may not outlive it where one is recorded
    wanted = [p.grad.clone() for p in classifier.parameters()]
    running = [b.clone() for b in classifier.buffers()]
    step = CapturedStep(classifier, recipe, batch, slots)
    for now, before in zip(classifier.buffers(), running, strict=True):
        torch.testing.assert_close(now, before)
    other, other_slots = next(shown.epoch(1, recipe))
    step(other, other_slots)
    torch.testing.assert_close(step(batch, slots), loss, rtol=1e-2, atol=1e-2)
    for parameter, gradient in zip(classifier.parameters(), wanted, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, rtol=5e-2, atol=5e-3)
