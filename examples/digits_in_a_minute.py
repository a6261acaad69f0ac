# %% [markdown]
# # Digits in a minute
# Ten classes arrive one after the other; every example is seen once and discarded.

# %%
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import train_test_split

from everlearn import StreamingLDA

X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(X / 16.0, y, random_state=0, stratify=y)

# %% [markdown]
# Teach a class, then ask about all classes so far. Beside it, gradient descent on the same stream,
# which got all ten classes in advance.

# %%
learner, rival = StreamingLDA(), SGDClassifier(random_state=0)
for digit in range(10):
    new, known = y == digit, y_test <= digit
    learner.partial_fit(X[new], y[new])
    rival.partial_fit(X[new], y[new], classes=np.arange(10))
    ours, theirs = (
        learner.score(X_test[known], y_test[known]),
        rival.score(X_test[known], y_test[known]),
    )
    print(f"digits 0-{digit}: everlearn {ours:.1%}, gradient descent {theirs:.1%}")

# %% [markdown]
# A class never seen before, from a single example: no training to wait for.

# %%
star = np.abs(np.add.outer(np.arange(8) - 3.5, np.arange(8) - 3.5)).ravel() < 1.5
learner.learn_one(star.astype(float), 10)
print("and a slash, called 10:", learner.predict_one(star * 0.9))
