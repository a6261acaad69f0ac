"""The example of CONTRIBUTING works as written: one file and one line in the list."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import everlearn

PAGE = Path(__file__).parents[2] / "CONTRIBUTING.md"
PROGRAM = """
import numpy as np
from sklearn.utils.estimator_checks import check_estimator
import everlearn
from everlearn import DiagonalLDA

results = everlearn.check_learner(everlearn.DiagonalLDA())
assert {result.status for result in results} <= {"passed", "skipped"}, results
check_estimator(DiagonalLDA(), on_skip=None)

# Where features are independent with one variance each, this is naive Bayes with that variance.
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
rng = np.random.default_rng(0)
scales = np.array([1.0, 2.0, 0.5])
y = np.repeat([0, 1], 2000)
X = (rng.normal(size=(4000, 3)) + y[:, None] * 1.5) * scales
learner = DiagonalLDA().fit(X, y)
theirs = LinearDiscriminantAnalysis().fit(X, y).predict(X)
assert (learner.predict(X) == theirs).mean() > 0.98

everlearn.save(learner, "model.everlearn")
assert (everlearn.load("model.everlearn").predict(X) == learner.predict(X)).all()
"""


def test_a_learner_is_one_file_and_one_line(tmp_path):
    page = PAGE.read_text("utf-8")
    code = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)[0]
    (line,) = re.findall(r"^from \.learners.*$", page, re.MULTILINE)
    (place,) = set(re.findall(r"`src/(everlearn/learners/\w+\.py)`", page))

    package = tmp_path / "everlearn"
    shutil.copytree(
        Path(everlearn.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__")
    )
    (tmp_path / place).write_text(code, encoding="utf-8")
    public = package / "__init__.pyi"
    public.write_text(f"{line}\n{public.read_text('utf-8')}", encoding="utf-8")

    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
