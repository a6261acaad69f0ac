"""First use with an empty cache of compiled code: CPU seconds of a fresh process.

For each learner: the first fit and predict, including the import, and the first update after that.
Python's bytecode exists, as after an installation: one import beforehand writes it. Optional
packages are hidden, because scikit-learn imports pandas if it is installed.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator

from benchmarks.side_by_side import Line

FORESTS = ("NCMForest", "SVMForest")
OTHERS = ("NearestClassMean", "StreamingLDA", "RecursiveRLSC", "PassiveAggressive", "ExStream")

HIDDEN = """
import sys
sys.modules["pandas"] = sys.modules["pyarrow"] = None
"""

PROGRAM = """
import json, sys, time
import numpy as np
rng = np.random.default_rng(0)
y = np.repeat(np.arange(6), 20)
X = 3.0 * rng.standard_normal((6, 8))[y] + rng.standard_normal((120, 8))
start = time.process_time()
import everlearn
learner = getattr(everlearn, sys.argv[1])()
if "n_estimators" in learner.get_params():
    learner.set_params(n_estimators=3, random_state=0)
first = y < (2 if sys.argv[1] in ("PassiveAggressive", "LeastSquaresSVM") else 4)
learner.fit(X[first], y[first]).predict(X)
fitted = time.process_time()
later = first if first.sum() == 40 else ~first
learner.partial_fit(X[later], y[later])
learner.learn_one(X[0], y[0]).predict_one(X[0])
print(json.dumps([fitted - start, time.process_time() - fitted]))
"""


IMPORTS = """
import time
start = time.process_time()
import everlearn
everlearn.NearestClassMean
print(time.process_time() - start)
"""


def lines() -> Iterator[Line]:
    _printed(HIDDEN + IMPORTS, {})
    floor = float(_printed(HIDDEN + IMPORTS, {}))
    yield Line("importing numba, scipy and scikit-learn, in each first use", f"{floor:.1f} s", "")
    for name in FORESTS:
        fit, update = first_use(name)
        yield Line(f"{name}: first fit and predict, nothing compiled", f"{fit:.1f} s", "≤ 15 s")
        yield Line(f"{name}: first update after that", f"{update:.1f} s", "≤ 15 s")
    for name in OTHERS:
        used = sum(first_use(name))
        yield Line(f"{name}: first use, nothing compiled", f"{used:.1f} s", "≤ 2.0 s")
    for name in ("StreamingLDA", "RecursiveRLSC"):
        uses = [sum(first_use(name, hidden="")) for _ in range(3)]
        claim = f"{name}: the same with every package of [dev], the best and worst of three"
        yield Line(claim, f"{min(uses):.2f} to {max(uses):.2f} s", "≤ 2.2 s")


def first_use(name: str, *, hidden: str = HIDDEN) -> list[float]:
    """CPU seconds of the first fit and predict, and of the first update, in a fresh process."""
    with tempfile.TemporaryDirectory() as cache:
        printed = _printed(hidden + PROGRAM, {"NUMBA_CACHE_DIR": cache}, name)
    seconds: list[float] = json.loads(printed)
    return seconds


def _printed(program: str, environment: dict[str, str], *arguments: str) -> str:
    inherited = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env=inherited | {"OPENBLAS_NUM_THREADS": "1"} | environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
