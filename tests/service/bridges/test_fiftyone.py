"""The bridge to FiftyOne: the same walk with a double of it and with FiftyOne 1.22 itself.

``make bridges`` installs FiftyOne and names its Python.
"""

import importlib
import itertools
import os
import subprocess
import sys
from types import ModuleType, SimpleNamespace

import pytest

from everlearn.errors import MissingPackage
from everlearn.service.bridges.fiftyone import FiftyOne
from tests.docs.blocks import ROOT

PYTHON = os.environ.get("EVERLEARN_FIFTYONE", "")
WALK = "tests.service.bridges.fiftyone_walk"


@pytest.fixture
def double(monkeypatch):
    """What the bridge uses of FiftyOne, in memory."""
    numbers = itertools.count()
    datasets = {}

    class Labelled:
        def __init__(self, **fields):
            self.id = f"label-{next(numbers)}"
            self.confidence = None
            self.__dict__.update(fields)

    class Classification(Labelled):
        pass

    class Detection(Labelled):
        pass

    class Classifications(Labelled):
        pass

    class Detections(Labelled):
        pass

    class Sample:
        media_type = "image"

        def __init__(self, filepath, **fields):
            self.filepath, self.tags, self.fields = filepath, [], fields

        def __getattr__(self, name):
            if name in ("fields", "dataset"):
                raise AttributeError(name)
            return self.fields.get(name)

        def __setattr__(self, name, value):
            own = name in ("filepath", "tags", "fields", "id", "dataset")
            (self.__dict__ if own else self.fields)[name] = value

        def __getitem__(self, name):
            return self.filepath if name == "filepath" else self.fields.get(name)

        def __setitem__(self, name, value):
            assert name in self.dataset.kinds
            self.fields[name] = value

        def has_field(self, name):
            return name == "filepath" or name in self.dataset.kinds

        def save(self):
            pass

        def reload(self):
            pass

    class Dataset:
        def __init__(self, name):
            self.name, self.samples, self.kinds = name, [], {}
            datasets[name] = self

        def __iter__(self):
            return iter(list(self.samples))

        def first(self):
            return self.samples[0]

        def add_samples(self, samples):
            for sample in samples:
                sample.id, sample.dataset = f"sample-{next(numbers)}", self
                self.samples.append(sample)
                for name, value in sample.fields.items():
                    if value is not None:
                        self.kinds.setdefault(name, type(value))

        def add_sample(self, sample):
            self.add_samples([sample])

        def delete_samples(self, numbers):
            self.samples = [sample for sample in self.samples if sample.id not in numbers]

        def iter_samples(self, *, autosave, progress):
            assert autosave
            return iter(self)

        def get_field(self, name):
            if name in self.kinds:
                return SimpleNamespace(document_type=self.kinds[name])
            return SimpleNamespace() if name == "filepath" else None

        def add_sample_field(self, name, kind, *, embedded_doc_type):
            assert kind is module.EmbeddedDocumentField
            self.kinds[name] = embedded_doc_type

        def reload(self):
            pass

        def delete(self):
            del datasets[self.name]

    module = ModuleType("fiftyone")
    for kind in (Classification, Classifications, Detection, Detections, Sample, Dataset):
        setattr(module, kind.__name__, kind)
    module.EmbeddedDocumentField = object()
    module.dataset_exists = lambda name: name in datasets
    module.load_dataset = datasets.__getitem__
    module.__version__ = "1.22, a double"
    monkeypatch.setitem(sys.modules, "fiftyone", module)
    yield module
    sys.modules.pop(WALK, None)


def test_a_dataset_is_learned_and_labelled(double, tmp_path, capsys):
    importlib.import_module(WALK).main(tmp_path)
    assert "everything held" in capsys.readouterr().out


def test_several_names_of_one_picture_are_all_learned(double, memory, tmp_path):
    walk = importlib.import_module(WALK)
    kinds = [double.Classification(label=name) for name in ("cup", "red", None)]
    dataset = double.Dataset("several")
    truth = double.Classifications(classifications=kinds)
    dataset.add_sample(double.Sample(walk.paint(tmp_path)["red"], ground_truth=truth))
    FiftyOne(memory, dataset).review()
    assert walk.counts(memory) == {"cup": 1, "red": 1}


def test_datasets_do_not_forget_what_others_taught(double, memory, tmp_path):
    walk = importlib.import_module(WALK)
    for name in ("a", "a/b"):
        truth = double.Classification(label="cup")
        dataset = double.Dataset(name)
        dataset.add_sample(double.Sample(walk.paint(tmp_path)["red"], ground_truth=truth))
        FiftyOne(memory, dataset).review()
    assert FiftyOne(memory, "a").review().forgotten == 0
    assert walk.counts(memory) == {"cup": 2}


def test_without_fiftyone_the_error_says_what_to_install(memory, monkeypatch):
    monkeypatch.setitem(sys.modules, "fiftyone", None)
    with pytest.raises(MissingPackage, match="pip install fiftyone"):
        FiftyOne(memory, "things")


@pytest.mark.skipif(
    not PYTHON, reason="EVERLEARN_FIFTYONE names no Python with FiftyOne; see make bridges"
)
def test_with_fiftyone_itself(tmp_path):
    ours = {"FIFTYONE_DATABASE_DIR": str(tmp_path / "database"), "FIFTYONE_DO_NOT_TRACK": "true"}
    # Its oldest database runs on more machines than its newest.
    ours |= {"FIFTYONE_DATABASE_VALIDATION": "false", "HOME": str(tmp_path)}
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | ours
    (tmp_path / "things").mkdir()
    done = subprocess.run(
        [PYTHON, "-m", WALK, tmp_path / "things"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "FiftyOne 1.22" in done.stdout
