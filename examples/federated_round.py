# %% [markdown]
# # One round between sites
# Three hospitals may not share images. They share statistics, once. The sum of these is the learner
# that training on all images in one place would give.

# %%
import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

import everlearn
from everlearn import StreamingLDA
from everlearn.cluster.federated import require_plausible, revealing

X, y = load_digits(return_X_y=True)
X = X / 16.0
sites = np.random.default_rng(0).integers(0, 3, size=len(X))

# %%
with tempfile.TemporaryDirectory() as folder:
    files = [Path(folder) / f"site-{number}.everlearn" for number in range(3)]
    for number, file in enumerate(files):  # at each site
        learner = StreamingLDA().fit(X[sites == number], y[sites == number])
        print(f"site {number}: classes with too few examples:", revealing(learner, least=20))
        everlearn.save(learner, file)

    whole = everlearn.load(files[0])  # in one place
    for file in files[1:]:
        received = everlearn.load(file)
        require_plausible(received, like=whole, most_rows=10_000)
        whole.merge(received)

    together = StreamingLDA().fit(X, y)
    gap = np.abs(whole.decision_function(X) - together.decision_function(X)).max()
    print(f"largest difference of a score from having all images in one place: {gap:.0e}")

    whole.unmerge(everlearn.load(files[2]))  # site 2 withdraws
    rest = StreamingLDA().fit(X[sites != 2], y[sites != 2])
    gap = np.abs(whole.decision_function(X) - rest.decision_function(X)).max()
    print(f"and after one site has withdrawn: {gap:.0e}")
