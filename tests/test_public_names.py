"""The public names, and importing them."""

import contextlib
import doctest
import importlib
import os
import pkgutil
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import everlearn

PUBLIC = Path(everlearn.__file__).with_suffix(".pyi").read_text()


def test_every_public_name_is_listed_once_and_documented():
    names = re.findall(r"^from \.\S+ import \w+ as (\w+)$", PUBLIC, re.MULTILINE)
    assert len(names) == len(set(names)) == PUBLIC.count("import")
    assert sorted(names) == sorted(everlearn.__all__)
    assert set(names) <= set(dir(everlearn))
    for name in names:
        assert getattr(everlearn, name).__doc__
    with pytest.raises(AttributeError, match="nothing_of_ours"):
        everlearn.nothing_of_ours  # noqa: B018


@pytest.mark.parametrize("name", everlearn.__all__)
def test_every_public_name_can_be_imported_from_its_package(name):
    """``from everlearn.learners import StreamingLDA`` works, and so for every package."""
    module = getattr(everlearn, name).__module__
    package = ".".join(module.split(".")[:2])
    warned = pytest.warns(FutureWarning) if name == "Trained" else contextlib.nullcontext()
    with warned:  # an old name says so
        assert getattr(importlib.import_module(package), name) is getattr(everlearn, name)


def test_a_function_is_found_despite_a_module_of_the_same_name():
    program = (
        "import everlearn.images.decode, everlearn.regions.main_thing; "
        "from everlearn.images import decode; from everlearn.regions import main_thing; "
        "print(callable(decode), callable(main_thing))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "True True\n", done.stderr


def test_a_function_under_its_old_name_is_found_with_a_warning():
    import everlearn.cluster

    with pytest.warns(FutureWarning, match="take_out is now called unlearn"):
        assert everlearn.cluster.take_out is everlearn.cluster.unlearn


def test_importing_is_light():
    program = (
        "import sys, everlearn; everlearn.StreamingLDA; "
        "print(*{module.split('.')[0] for module in sys.modules})"
    )
    output = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    heavy = {"numba", "llvmlite", "matplotlib", "torch", "onnxruntime", "rich", "click", "PIL"}
    assert heavy.isdisjoint(output.split())


def test_the_fast_path_compiles_without_a_writable_home(tmp_path):
    program = (
        "import everlearn; l = everlearn.NearestClassMean(); "
        "l.learn_one([0.0], 'a'); print(l.predict_one([1.0]))"
    )
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True
    )
    assert done.stdout == "a\n"


# Optional dependencies, each imported by one of our packages only.
EXTRAS = {"dask", "distributed", "pyspark", "ray", "torch"}
MODULES = [
    module.name
    for module in pkgutil.walk_packages(everlearn.__path__, "everlearn.")
    if not module.ispkg
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_the_documentation_run(name):
    try:
        module = importlib.import_module(name)
    except ImportError as missing:
        # A package of ours that names what to install was raised while that was looked for.
        needed = missing.name or getattr(missing.__context__, "name", None)
        if needed not in EXTRAS:
            raise
        pytest.skip(f"{name} needs {needed}, which is not installed")
    failed, _ = doctest.testmod(module)
    assert failed == 0


def test_vulnerable_versions_are_excluded():
    """Pillow before 11.3 could be made to write beyond a buffer."""
    packaging = pytest.importorskip("packaging.requirements")
    wanted = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())
    images = wanted["project"]["optional-dependencies"]["images"]
    (pillow,) = [packaging.Requirement(words) for words in images if words.startswith("pillow>")]
    for version in ("10.4.0", "11.0.0", "11.2.1"):
        assert not pillow.specifier.contains(version)
