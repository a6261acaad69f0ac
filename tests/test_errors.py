"""Regressions: errors that had no name, and badly timed interrupts."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from everlearn import (
    ExStream,
    FixedCovarianceLDA,
    Memory,
    NearestClassMean,
    RecursiveRLSC,
    StreamingLDA,
)
from everlearn.errors import WrongShape
from everlearn.interrupts import deferred_interrupts


@pytest.mark.parametrize(
    "kind", [NearestClassMean, RecursiveRLSC, StreamingLDA, FixedCovarianceLDA, ExStream]
)
def test_a_head_before_the_first_example(kind):
    with pytest.raises(NotFittedError):
        kind().linear_head()


def test_a_half_life_longer_than_the_stream_forgets_nothing(rng):
    X, y = rng.normal(size=(20, 3)), np.arange(20) % 2
    slow, never = NearestClassMean(half_life=1e308).fit(X, y), NearestClassMean().fit(X, y)
    assert np.allclose(slow.centroids_, never.centroids_)


def test_an_empty_dictionary_has_no_features():
    river = pytest.importorskip("everlearn.river", reason="river is not installed")
    with pytest.raises(WrongShape, match="no features"):
        river.OneByOne(NearestClassMean()).learn_one({}, "cup")


def test_a_vector_that_is_not_a_blob_is_damage(tmp_path, rng):
    import sqlite3

    with Memory(tmp_path / "m") as memory:
        memory.teach_many((x, "cup") for x in rng.normal(size=(4, 3)))
    db = sqlite3.connect(tmp_path / "m" / "journal.sqlite")
    db.execute("UPDATE vectors SET vector = 'words'")
    db.commit()
    db.close()
    for cache in tmp_path.glob("m/prepared-*"):
        cache.unlink()
    with Memory(tmp_path / "m", read_only=True) as memory:
        assert "not stored as bytes" in " ".join(memory.verify().problems)


@pytest.fixture
def interruptible():
    """Interrupts raise, also where the tests were started in the background of a shell."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_waits_for_the_end_of_an_import():
    reached = []

    def interrupted():
        with deferred_interrupts():
            os.kill(os.getpid(), signal.SIGINT)
            reached.append("the end")
        reached.append("beyond")

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert reached == ["the end"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupt_that_ends_the_process_is_not_lost():
    code = """
import os, signal
from everlearn.interrupts import deferred_interrupts
signal.signal(signal.SIGINT, signal.SIG_DFL)
with deferred_interrupts():
    os.kill(os.getpid(), signal.SIGINT)
    print("done", flush=True)
print("beyond")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (-signal.SIGINT, "done\n")


def test_the_compiler_is_imported_while_interrupts_wait():
    pytest.importorskip("numba", reason="numba is not installed")
    code = """
import contextlib, sys
import everlearn.interrupts as interrupts

seen = []

@contextlib.contextmanager
def watched():
    seen.append("numba" in sys.modules)
    yield
    seen.append("numba" in sys.modules)

interrupts.deferred_interrupts = watched
import everlearn.compiled
assert seen == [False, True], seen
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"EVERLEARN_COMPILED": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("package", "first_use"),
    [
        ("onnxruntime", "from everlearn import EfficientNetLite0; EfficientNetLite0()"),
        ("torch", "import everlearn.deep"),
        ("torch", "from everlearn import NearestClassMean; NearestClassMean().to('cuda')"),
    ],
)
def test_large_packages_are_imported_while_interrupts_wait(package, first_use):
    """The interrupt arrives as soon as the first part of the package is imported."""
    pytest.importorskip(package)
    code = f"""
import os, signal, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name.startswith("{package}."):
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Interrupting())
try:
    {first_use}
except KeyboardInterrupt:
    print("{package}" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "True\n", done.stderr


def test_a_process_that_was_forked_does_not_write(tmp_path):
    code = f"""
import os, sys
import numpy as np
from everlearn import Memory
from everlearn.errors import MemoryBusy
memory = Memory({str(tmp_path / "m")!r})
memory.teach(np.ones(3), "cup")
child = os.fork()
if child == 0:
    try:
        memory.teach(np.zeros(3), "pen")
    except MemoryBusy:
        memory.close()
        os._exit(7)
    os._exit(0)
_, status = os.waitpid(child, 0)
assert os.waitstatus_to_exitcode(status) == 7
memory.teach(np.arange(3.0), "pen")
memory.close()
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    with Memory(tmp_path / "m", read_only=True) as memory:
        assert list(memory.names()) == ["cup", "pen"]
        assert memory.verify().ok
