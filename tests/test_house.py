"""The house keeps its measures: short lines of inheritance, files one can read, no experiments."""

import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pytest

import everlearn

ROOT = Path(__file__).resolve().parents[1]
LIBRARY = Path(everlearn.__file__).parent
LONGEST_LINE_OF_INHERITANCE = 4
LONGEST_FILE = 500

# What a reader opens to understand an algorithm, in order (docs/architecture.md, "Four walks").
TO_READ = {
    "TROL": (
        900,
        (
            "transfer/trol.py",
            "transfer/multi_kt.py",
            "transfer/prior_weights.py",
            "transfer/online.py",
            "transfer/steps.py",
        ),
    ),
    "RUST": (
        1_500,
        (
            "forest/ncm_forest.py",
            "forest/classifier.py",
            "forest/grove.py",
            "forest/update/rust.py",
            "forest/split_ncm.py",
        ),
    ),
}


def our_classes():
    for module in pkgutil.walk_packages(everlearn.__path__, "everlearn."):
        try:
            found = importlib.import_module(module.name)
        except ImportError:  # an extra that is not installed
            continue
        for kind in vars(found).values():
            if inspect.isclass(kind) and is_ours(kind):
                yield kind


def is_ours(kind):
    return kind.__module__.split(".")[0] == "everlearn"


def depth(kind):
    return is_ours(kind) + max((depth(base) for base in kind.__bases__), default=0)


def test_no_line_of_inheritance_is_longer_than_a_reader_can_follow():
    longest = max(our_classes(), key=depth)
    assert depth(longest) <= LONGEST_LINE_OF_INHERITANCE, longest


@pytest.mark.parametrize("part", ["src", "papers", "benchmarks", "tests", "examples"])
def test_no_file_needs_a_map(part):
    files = [f for f in (ROOT / part).rglob("*.py") if ".venv" not in f.parts]
    lengths = {str(f): len(f.read_text(encoding="utf-8").splitlines()) for f in files}
    assert files
    assert {name: n for name, n in lengths.items() if n > LONGEST_FILE} == {}


@pytest.mark.parametrize("algorithm", TO_READ)
def test_an_algorithm_is_understood_from_few_files(algorithm):
    most, names = TO_READ[algorithm]
    lengths = [len((LIBRARY / n).read_text(encoding="utf-8").splitlines()) for n in names]
    assert sum(lengths) <= most
    # Each of them is reached from one before it.
    for place, name in enumerate(names[1:], 1):
        stem = name.removesuffix(".py").replace("/", ".")
        before = [(LIBRARY / n).read_text(encoding="utf-8") for n in names[:place]]
        package, _, module = stem.rpartition(".")
        here = rf"everlearn\.{re.escape(stem)}|everlearn\.{re.escape(package)} import .*{module}"
        assert any(re.search(here, text) for text in before), name


def test_the_library_has_no_experiment_in_it():
    imports = re.compile(r"^\s*(from|import) everlearn_papers", re.MULTILINE)
    files = LIBRARY.rglob("*.py")
    assert [f for f in files if imports.search(f.read_text(encoding="utf-8"))] == []
