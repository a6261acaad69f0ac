"""What a user meets first."""

import doctest
import importlib
import os
import pkgutil
import subprocess
import sys

import pytest

import everlearn
from everlearn.names import HOME


def test_the_public_names_are_few_and_exist():
    assert len(everlearn.__all__) <= 25
    for name in everlearn.__all__:
        assert getattr(everlearn, name).__doc__


def test_every_public_name_is_found_where_it_is_said_to_live():
    assert sorted(everlearn.__all__) == sorted(HOME)
    assert set(everlearn.__all__) <= set(dir(everlearn))
    for name, home in HOME.items():
        assert getattr(everlearn, name).__module__ == home
    with pytest.raises(AttributeError, match="nothing_of_ours"):
        everlearn.nothing_of_ours  # noqa: B018


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


MODULES = [
    module.name
    for module in pkgutil.walk_packages(everlearn.__path__, "everlearn.")
    if not module.ispkg
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_the_documentation_run(name):
    failed, _ = doctest.testmod(importlib.import_module(name))
    assert failed == 0
