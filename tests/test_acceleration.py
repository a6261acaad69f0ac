"""Everything but forests works where numba is not installed, and answers the same."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# What is taught and asked, and everything that comes out of it, in numbers.
PROGRAM = """
import json, sys
import numpy as np
import everlearn
from everlearn import AutoClassifier, NearestClassMean, PowerNormalizer, RecursiveRLSC
from everlearn import StreamingLDA, StreamPipeline

rng = np.random.default_rng(0)
centres = rng.normal(size=(5, 24))
y = rng.integers(0, 5, 400)
X = centres[y] + rng.normal(size=(400, 24))
scores = {}
for learner in (
    NearestClassMean(), StreamingLDA(), StreamingLDA(shrinkage="oas", class_scatter=True),
    RecursiveRLSC(fit_intercept=True), AutoClassifier(sample_size=60),
    StreamPipeline([("root", PowerNormalizer()), ("learn", StreamingLDA())]),
):
    learner.partial_fit(X[:200], y[:200])
    for x, label in zip(X[200:300], y[200:300]):
        learner.learn_one(x, label)
        learner.predict_one(x)
    learner.forget(X[:50], y[:50])
    answers = learner.decision_function(X[300:])
    scores[" ".join(repr(learner).split())] = answers.tolist()
assert ("numba" in sys.modules) is COMPILED, "the other way was taken"
print(json.dumps(scores))
"""


def run(program: str, *, compiled: bool) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program.replace("COMPILED", str(compiled))],
        env=os.environ | {"EVERLEARN_COMPILED": str(int(compiled))},
        capture_output=True,
        text=True,
        check=False,
    )


def test_scores_agree_to_twelve_digits():
    pytest.importorskip("numba", reason="numba is not installed, so there is no other way")
    import numpy as np

    ways = []
    for compiled in (True, False):
        done = run(PROGRAM, compiled=compiled)
        assert done.returncode == 0, done.stderr
        ways.append(json.loads(done.stdout))
    assert ways[0].keys() == ways[1].keys()
    for learner, scores in ways[0].items():
        ours, theirs = np.array(scores), np.array(ways[1][learner])
        np.testing.assert_allclose(theirs, ours, atol=1e-12 * np.abs(ours).max(), err_msg=learner)
        np.testing.assert_array_equal(theirs.argmax(axis=1), ours.argmax(axis=1))


def test_forests_name_the_missing_package():
    program = (
        "from everlearn import NCMForest\n"
        "from everlearn.errors import MissingPackage\n"
        "try:\n    NCMForest().fit([[0.0], [1.0]], [0, 1])\n"
        "except MissingPackage as error:\n    print(error)\n"
    )
    said = run(program, compiled=False).stdout
    assert "a forest needs numba" in said
    assert "pip install 'everlearn[forests]'" in said


def test_slow_loops_are_logged_once():
    program = (
        "import numpy as np\nfrom everlearn import PassiveAggressive\n"
        "learner = PassiveAggressive()\n"
        "for i in range(4):\n    learner.learn_one(np.ones(2) * (i % 2), str(i % 2))\n"
        "print(learner.predict_one(np.ones(2)))\n"
    )
    done = run(program, compiled=False)
    assert done.stdout == "1\n", done.stderr
    assert done.stderr.count("runs without numba") == 1


def test_a_memory_made_with_numba_passes_verify_without_numba(tmp_path):
    pytest.importorskip("numba", reason="numba is not installed, so there is no other way")
    teach = (
        "import numpy as np\nfrom everlearn import Memory\n"
        f"with Memory({str(tmp_path / 'memory')!r}) as memory:\n"
        "    rng = np.random.default_rng(0)\n"
        "    for i in range(300):\n"
        "        memory.teach(rng.normal(size=16) + 8 * np.eye(16)[i % 3], f'name {i % 3}')\n"
        "    answer = memory.ask(np.eye(16)[1])\n"
        "    print(answer[0].name, memory.verify().problems)\n"
    )
    assert run(teach, compiled=True).stdout == "name 1 ()\n"
    for compiled in (False, True):
        again = teach.replace("range(300)", "range(0)")
        assert run(again, compiled=compiled).stdout == "name 1 ()\n"


@pytest.mark.slow
@pytest.mark.parametrize("part", ["contract/test_check_learner.py", "statistics"])
def test_contract_and_statistics_tests_pass_without_numba(part):
    """The contract of every learner but the forests, and the algebra of the statistics."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", "-k", "not Forest",
         f"tests/{part}"],
        cwd=ROOT,
        env={k: v for k, v in os.environ.items() if not k.startswith("PYTEST_XDIST")}
        | {"EVERLEARN_COMPILED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]
