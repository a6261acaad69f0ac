"""Compare estimators of everlearn, scikit-learn and River under one protocol.

All see the same stream, one example at a time: each is asked about an example before it learns it.
Then the same class by class, which is harder.

    python examples/evaluate_any_estimator.py
"""

from river.linear_model import SoftmaxRegression
from sklearn.datasets import load_digits
from sklearn.linear_model import SGDClassifier
from sklearn.naive_bayes import MultinomialNB

from everlearn import NearestClassMean, StreamingLDA
from everlearn.evaluation import Table, checkpointed, prequential
from everlearn.streams import Examples, class_iid, iid

ESTIMATORS = {
    "everlearn StreamingLDA": lambda: StreamingLDA(shrinkage=1e-2),
    "everlearn NearestClassMean": NearestClassMean,
    "scikit-learn SGDClassifier": lambda: SGDClassifier(random_state=0),
    "scikit-learn MultinomialNB": MultinomialNB,
    "River SoftmaxRegression": SoftmaxRegression,
}


def compare() -> Table:
    """One row per estimator: prequential accuracy, and accuracy after a stream class by class."""
    X, y = load_digits(return_X_y=True)
    X = X / 16.0
    train, test = Examples(X[:1200], y[:1200]), Examples(X[1200:], y[1200:])
    table = Table()
    for name, make in ESTIMATORS.items():
        run = prequential(make(), train.X, train.y, order=iid(train.y, seed=0))
        curve = checkpointed(make(), train, test, class_iid(train.y, seed=0), every=1200)
        table.add(
            estimator=name,
            **run.as_row(),
            **{"accuracy, class by class": curve.accuracies[-1]},
        )
    return table


if __name__ == "__main__":
    print(compare().to_markdown())
