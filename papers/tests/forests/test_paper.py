"""The forests paper: its protocol, what its quick run shows, and the numbers it printed."""

import json

import numpy as np
import pytest
from everlearn_papers import reproduce
from everlearn_papers.forests import protocol
from everlearn_papers.forests.as_published import LeafAsGivenNCM
from everlearn_papers.forests.experiments import grown, growth
from everlearn_papers.forests.protocol import (
    ClassStream,
    average_accuracy,
    retraining_seconds,
    sizes_of_updates,
)
from everlearn_papers.forests.rivals import classifiers, metrics
from everlearn_papers.report import published
from sklearn.metrics import balanced_accuracy_score

from everlearn.forest.ncm_forest import NCMForest
from everlearn.streams.examples import DataSet, Examples


def blobs(rng, n_classes=12, n_features=6, per_class=16):
    y = np.repeat(np.arange(n_classes), per_class)
    centres = 2.5 * rng.standard_normal((n_classes, n_features)) + 3.0
    return Examples(centres[y] + rng.standard_normal((len(y), n_features)), y)


@pytest.fixture
def toy(rng, monkeypatch):
    """A small data set of Gaussian classes, registered under a name for the experiments."""
    every = blobs(rng)
    is_test = np.arange(len(every)) % 4 == 0
    data = DataSet("toy", every.take(~is_test), every.take(is_test))
    monkeypatch.setitem(protocol.DATA_SETS, "toy", lambda: data)
    yield data
    protocol.data_set.cache_clear()


def test_every_order_contains_the_same_classes(toy):
    streams = [ClassStream.of(toy, 7, seed) for seed in range(3)]
    assert len({tuple(sorted(stream.order)) for stream in streams}) == 1
    assert len({tuple(stream.order) for stream in streams}) == 3
    for stream in streams:
        np.testing.assert_array_equal(stream.train.classes, np.sort(stream.order))


def test_whitening_uses_only_the_first_classes(toy):
    stream = ClassStream.of(toy, 7, 0)
    whitened = stream.whitened(3)
    first = whitened.between(0, 3).X
    np.testing.assert_allclose(first.mean(axis=0), 0.0, atol=1e-5)
    np.testing.assert_allclose(first.std(axis=0), 1.0, atol=1e-5)
    # The same shift and scale for everything else.
    raw = stream.between(0, 3).X
    expected = (stream.test.X - raw.mean(axis=0)) / raw.std(axis=0)
    np.testing.assert_allclose(whitened.test.X, expected, atol=1e-5)


def test_updates_add_every_class_once(toy):
    stream = ClassStream.of(toy, 12, 1)
    sizes = sizes_of_updates(5, 4, 12)
    assert sizes == [5, 9, 12]
    brought = stream.batches(5, 4)
    assert [len(part.classes) for part in brought] == [5, 4, 3]
    for part, start, stop in zip(brought, (0, 5, 9), sizes, strict=True):
        np.testing.assert_array_equal(part.X, stream.between(start, stop).X)
    labels = np.concatenate([part.y for part in brought])
    np.testing.assert_array_equal(np.sort(labels), np.sort(stream.train.y))


def test_subsampling_reduces_examples_and_features(toy):
    stream = ClassStream.of(toy, 12, 0)
    small = stream.with_examples(5).with_features(3)
    assert np.unique(small.train.y, return_counts=True)[1].tolist() == [5] * 12
    np.testing.assert_array_equal(small.test.X, stream.test.X[:, ::2])


def test_average_accuracy_is_that_of_scikit_learn(rng):
    truth = rng.choice(4, 200, p=[0.7, 0.1, 0.1, 0.1])
    answers = np.where(rng.random(200) < 0.6, truth, rng.choice(4, 200))
    expected = balanced_accuracy_score(truth, answers)
    assert average_accuracy(truth, answers) == pytest.approx(expected)


def test_retraining_times_of_all_updates_are_summed():
    sizes = sizes_of_updates(3, 1, 10)
    # Training n classes takes n² seconds, timed at every size: the sums of squares.
    each = {size: float(size**2) for size in sizes}
    expected = [sum(n**2 for n in range(4, size + 1)) for size in sizes]
    assert retraining_seconds(each, sizes) == pytest.approx(expected)
    # Timed at both ends alone, a cost that is a power is still exact.
    few = {3: 9.0, 10: 100.0}
    assert retraining_seconds(few, sizes) == pytest.approx([expected[0], expected[-1]])


def test_without_nodes_to_update_retraining_subtrees_is_growing_leaves(toy):
    """Sec. 4.3: for π = 0, RTST is the same as IGT."""
    arms = {
        "IGT": {"update": "igt"},
        "RTST": {"update": "rtst", "update_fraction": 0.0},
        "ULS": {"update": "uls"},
    }
    run = grown(
        0,
        data="toy",
        forests=["NCMF", "SVMF"],
        initials=[3],
        steps=[1, 4],
        checkpoints=[3, 7, 12],
        n_trees=5,
        arms=arms,
    )
    for kind in ("NCMF", "SVMF"):
        for step in (1, 4):
            found = run[growth(kind, 3, step)]
            assert found["IGT"]["accuracy"] == found["RTST"]["accuracy"]
            # A forest of three classes that never grows cannot tell twelve apart.
            assert found["ULS"]["accuracy"][-1] < found["IGT"]["accuracy"][-1]
            assert found["ULS"]["nodes"][0] == found["ULS"]["nodes"][-1]
            assert found["ULS"]["accuracy"][0] == found["retrained"]["accuracy"][0]


def test_published_leaf_sizes_are_a_lower_bound(toy):
    """μ = 10 with 12 examples a class, where the library's forests take 1.2."""
    given = LeafAsGivenNCM(n_estimators=3, random_state=0).fit(toy.train.X, toy.train.y)
    free = NCMForest(n_estimators=3, random_state=0).fit(toy.train.X, toy.train.y)
    most = 2 * (len(toy.train) // 11) - 1  # every leaf has eleven or more
    assert given.n_nodes_.max() <= most < free.n_nodes_.min()


def test_settings_of_rivals_do_not_depend_on_the_test_set(toy, rng, monkeypatch):
    wanted = ["KNN", "RF", "MC SVM"]
    common = {"data": "toy", "sizes": [8, 12], "n_trees": 5, "names": wanted}
    honest = classifiers(0, **common)
    other = DataSet("toy", toy.train, Examples(toy.test.X, rng.permutation(toy.test.y)))
    monkeypatch.setitem(protocol.DATA_SETS, "toy", lambda: other)
    protocol.data_set.cache_clear()
    fooled = classifiers(0, **common)
    assert fooled["search"] == honest["search"]
    assert all(fooled["accuracy"][name][0] < honest["accuracy"][name][0] for name in wanted)
    assert [len(honest["accuracy"][name]) for name in wanted] == [2, 2, 2]


def test_a_metric_of_all_classes_equals_that_of_the_first_classes_if_these_are_all(toy):
    run = metrics(0, data="toy", initial=[4, 8], checkpoints=[8, 12], ranks=[3])
    assert run["8"][0] == run["all"][0]
    assert run["4"][1] < run["all"][1]


def test_the_rank_of_a_metric_is_chosen_with_later_classes(rng, monkeypatch):
    """The first two classes differ in one direction, the others in two that they do not use."""
    centres = np.zeros((6, 6))
    centres[1, 0] = 6.0
    centres[2:, 1:3] = 6.0 * np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]])
    y = np.repeat(np.arange(6), 40)
    every = Examples(centres[y] + rng.standard_normal((len(y), 6)), y)
    stream = ClassStream(every, every, np.arange(6))
    monkeypatch.setattr(ClassStream, "of", lambda *_: stream)
    monkeypatch.setitem(protocol.DATA_SETS, "toy", lambda: None)
    run = metrics(0, data="toy", initial=[2], checkpoints=[6], ranks=[1, 2, 4, 6])
    protocol.data_set.cache_clear()
    found = run["search"]["2"]
    assert found["tried"]["1"] < 0.5  # of all six classes: of the two, all are right
    assert found["taken"] >= 3


@pytest.fixture(scope="module")
def quick(data_pack, tmp_path_factory):
    data_pack("cifar100_small_effnetlite0.npz")
    data_pack("omniglot_28.npz")
    folder = tmp_path_factory.mktemp("forests")
    reproduce("forests", quick=True, out=folder)
    return folder, json.loads((folder / "results.json").read_text())["parts"]


def rows(results, part, *names):
    """The rows of a part by the values of some columns."""
    return {tuple(str(row[name]) for name in names): row for row in results[part]["rows"]}


def number(text):
    return float(str(text).split()[0])


@pytest.mark.parametrize("kind", ["NCMF", "SVMF"])
def test_retrained_subtrees_beat_reused_ones_beat_grown_leaves(quick, kind):
    """Fig. 8 and 9: RTST > RUST > IGT > ULS."""
    found = rows(quick[1], "fig9", "forest", "update")
    relative = [
        number(found[kind, way]["measured relative %"]) for way in ("ULS", "IGT", "RUST", "RTST")
    ]
    assert relative == sorted(relative)
    assert relative[0] < 40 < 80 < relative[1]
    assert relative[-1] > 90


def test_the_order_of_updates_holds_for_several_classes_at_a_time(quick):
    """Fig. 12, on features and on pixels."""
    found = rows(quick[1], "fig12", "data", "forest", "update")
    for data in ("CIFAR-100", "Omniglot"):
        for kind in ("NCMF", "SVMF"):
            share = {
                way: number(found[data, kind, way]["measured relative %"])
                for way in ("ULS", "IGT", "RUST", "RTST")
            }
            assert share["ULS"] + 30 < min(share["IGT"], share["RUST"]) < share["RTST"]


def test_forests_beat_random_forests_and_neighbours(quick):
    """Table 1a. With 30 images a class forests are level with NCM; see the next test."""
    last = {
        row["method"]: number(row["measured 25"])
        for row in quick[1]["table1"]["rows"]
        if row[""] == "a"
    }
    for rival in ("KNN", "RF", "MF", "RF, axis splits in our trees"):
        assert min(last["NCMF"], last["SVMF"]) > last[rival] + 0.05
    assert min(last["NCMF"], last["SVMF"]) > last["NCM"] - 0.02


def test_with_more_images_an_ncm_forest_beats_ncm(data_pack):
    """Table 1a, at 50 classes with 100 images each."""
    data_pack("cifar100_small_effnetlite0.npz")
    wanted = ["NCM", "NCMF"]
    run = classifiers(0, data="cifar100", sizes=[50], n_trees=25, names=wanted)
    assert run["accuracy"]["NCMF"][0] > run["accuracy"]["NCM"][0] + 0.01


def test_a_metric_of_few_classes_beats_leaves_without_new_splits(quick):
    """Table 1b: MET_k+NCM is ahead of ULS, and behind a metric of all classes."""
    last = {
        (row[""], row["method"]): number(row["measured 25"]) for row in quick[1]["table1"]["rows"]
    }
    assert last["b", "NCMF+ULS"] < last["b", "MET_5+NCM"] < last["a", "MET+NCM"]


def test_every_figure_is_drawn_and_a_second_run_reuses_results(quick):
    folder, results = quick
    further = ["leaf", "fifty", "memory", "grids"]
    assert list(results) == [*(f"fig{n}" for n in range(4, 16)), "table1", "table2", *further]
    for part in results:
        names = {table: [] for table in ("table1", "table2", "leaf", "fifty", "grids")}
        names |= {"fig11": ["fig11", "fig11-omniglot"], "fig15": ["fig15-right", "fig15-wrong"]}
        for name in names.get(part, [part]):
            assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    kept = {path: path.stat().st_mtime_ns for path in (folder / "runs").rglob("*.json")}
    reproduce("forests", only="table2", quick=True, out=folder)
    assert {path: path.stat().st_mtime_ns for path in (folder / "runs").rglob("*.json")} == kept


def test_every_published_number_states_its_source():
    numbers = published("forests")
    assert all("source" in value for key, value in numbers.items() if key not in ("paper", "notes"))
    assert numbers["fig8"]["relative"] == {"ULS": 27.0, "IGT": 83.5, "RUST": 88.3, "RTST": 96.0}


@pytest.mark.parametrize("block", ["b", "c"])
def test_published_accuracies_and_relative_performances_agree(block):
    """Table 1 prints both; they differ by what two rounded digits allow."""
    table = published("forests")["table1"]
    for name, printed in table[block].items():
        baseline = table["a"]["MET+NCM" if name.startswith("MET") else name.split("+")[0]]
        for (accuracy, relative), whole in zip(printed, baseline, strict=True):
            least = (accuracy - 0.005) / (whole + 0.005)
            most = (accuracy + 0.005) / (whole - 0.005)
            # MET_20+NCM at 50 classes is printed as 0.32 (68.2 %), which no rounding explains.
            if (name, accuracy) != ("MET_20+NCM", 0.32):
                assert 100 * least - 0.1 <= relative <= 100 * most + 0.1, name
