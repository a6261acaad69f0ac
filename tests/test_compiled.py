"""How functions are compiled: announced once, kept on disk, chosen by type."""

import os
import subprocess
import sys
from typing import NamedTuple

import pytest
from numba import njit
from numba.core.errors import TypingError

from everlearn.compiled import by_type

PROGRAM = """
import numpy as np
from everlearn.forest.randomness import random_units
print(random_units(np.array([1], np.uint64), 2))
"""


def test_compiling_a_forest_is_announced_in_one_line_and_happens_once(tmp_path):
    def run():
        return subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        )

    first, second = run(), run()
    assert first.stderr.splitlines() == [
        "compiling everlearn.forest for this machine; the result is cached on disk, so this "
        "happens once"
    ]
    assert second.stderr == ""
    assert first.stdout == second.stdout


KERNEL = """
from everlearn.compiled import compiled

@compiled
def total(rows):
    return rows.values.sum()
"""


def test_code_compiled_for_a_renamed_class_is_recompiled(tmp_path):
    def run(name, values):
        (tmp_path / "shapes.py").write_text(
            "from typing import NamedTuple\nimport numpy as np\n\n\n"
            f"class {name}(NamedTuple):\n    values: np.ndarray\n"
        )
        program = (
            f"import numpy as np; from kernel import total; from shapes import {name}; "
            f"print(total({name}(np.array({values}))))"
        )
        return subprocess.run(
            [sys.executable, "-B", "-c", program],
            cwd=tmp_path,
            env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")},
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    (tmp_path / "kernel.py").write_text(KERNEL)
    assert run("Rows", [1.0, 2.0]) == "3.0\n"
    kept = set((tmp_path / "cache").rglob("*.nbi"))
    assert kept
    assert run("Table", [2.0, 3.0]) == "5.0\n"
    assert set((tmp_path / "cache").rglob("*.nbi")) == kept  # the same function's, written anew


def test_an_unwritable_cache_folder_is_no_error(tmp_path):
    """As for a server that gives up its rights after it has started."""
    cache = tmp_path / "cache"
    taken_away = PROGRAM.replace(
        "print", f"import shutil; shutil.rmtree({str(cache)!r}); open({str(cache)!r}, 'w'); print"
    )
    done = subprocess.run(
        [sys.executable, "-c", taken_away],
        env=os.environ | {"NUMBA_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("[0.")


class Circle(NamedTuple):
    radius: float


class Square(NamedTuple):
    side: float


class Blob(NamedTuple):
    size: float


@by_type
def area(shape):
    raise NotImplementedError


@area.register(Circle)
def circle_area(shape):
    return 3.0 * shape.radius * shape.radius


@area.register(Square)
def square_area(shape):
    return shape.side * shape.side


def test_the_body_is_chosen_by_the_type_of_the_first_argument():
    @njit
    def twice(shape):
        return 2.0 * area(shape)

    assert twice(Circle(2.0)) == 24.0
    assert twice(Square(3.0)) == 18.0
    with pytest.raises(TypingError):
        twice(Blob(1.0))


def test_functions_without_a_module_are_compiled_beside_ours():
    """What a notebook or a code generator hands to numba may come from exec."""
    made = {"__name__": None}
    exec("def plus_one(x):\n    return x + 1", made)  # the point: such a function has no module
    assert njit(made["plus_one"])(2) == 3


PAUSED = """
import gc
from numba.core import event
import numpy as np
from everlearn.statistics.kernels import one_product

class Watching(event.Listener):
    def on_start(self, _): seen.append(gc.isenabled())
    def on_end(self, _): pass

seen = []
event.register("numba:compile", Watching())
one_product(np.eye(2), np.ones(2), np.zeros(2))
try:
    one_product("no matrix", np.ones(2), np.zeros(2))
except Exception:
    print("refused")
print(seen[0], gc.isenabled())
gc.disable()
one_product(np.eye(2, dtype=np.float32), np.ones(2), np.zeros(2))
print(gc.isenabled())
"""


def test_garbage_collection_pauses_while_compiling(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", PAUSED],
        env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["refused", "False", "True", "False"]


INTERRUPTED = """
import os, signal, sys
import numpy as np
from everlearn.statistics.kernels import one_product

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name.startswith("numba."):
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Interrupting())
try:
    one_product(np.eye(2), np.ones(2), np.zeros(2))
except KeyboardInterrupt:
    print("interrupted", len(one_product.signatures))
"""


def test_an_interrupt_waits_until_a_function_is_compiled_or_loaded(tmp_path):
    def run():
        return subprocess.run(
            [sys.executable, "-c", INTERRUPTED],
            env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    compiled, loaded = run(), run()
    assert compiled == loaded == "interrupted 1\n"
