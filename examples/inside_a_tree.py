# %% [markdown]
# # Looking into a tree
# Which path does an example take through a nearest-class-mean tree, and why?

# %%
from sklearn.datasets import load_digits

from everlearn import NCMForest
from everlearn.forest.inside import path

X, y = load_digits(n_class=6, return_X_y=True)
forest = NCMForest(n_estimators=5, random_state=0).fit(X[:300], y[:300])
print(f"accuracy on others: {forest.score(X[300:600], y[300:600]):.1%}")

# %% [markdown]
# At every node the example goes to the side of the nearest of a few class means.

# %%
example = X[400]
for step in path(forest, example, tree=0)[:-1]:
    assert step.nearest is not None  # only hyperplanes have no means to be near to
    nearest = step.members[step.nearest]
    print(f"depth {step.depth}: {step.n_examples} examples, nearest is the mean of {nearest.label}")
print("the forest says", forest.predict_one(example), "and it is", y[400])

# %% [markdown]
# A new class: the trees grow where its examples arrive.

# %%
X_all, y_all = load_digits(n_class=7, return_X_y=True)
forest.partial_fit(X_all[y_all == 6][:40], y_all[y_all == 6][:40])
print("a six is now", forest.predict_one(X_all[y_all == 6][50]))
