"""Ten digits, one class at a time; accuracy is measured after each.

Run with ``make demo``. Each step is compared with keeping all examples and training again. Then the
result is drawn, the model is saved, loaded and asked again, and a Memory is taught image files.
"""

import time
from dataclasses import dataclass
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from rich.console import Console
from rich.live import Live
from rich.table import Table
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import train_test_split

from everlearn import StreamingLDA, load, save
from everlearn.cli import demo as images

OUT = Path("out")


@dataclass(frozen=True)
class Step:
    """Measurements after one class was taught."""

    digit: int
    n_examples: int
    accuracy: float
    learn_us: float
    memory_kb: float
    retrained_accuracy: float
    retrain_us: float
    kept_kb: float


def main() -> None:
    console = Console()
    digits = load_digits()
    X, X_test, y, y_test = train_test_split(
        digits.data / 16.0, digits.target, test_size=0.3, random_state=0, stratify=digits.target
    )
    with console.status("getting ready"):
        warm_up(X)
    learner = StreamingLDA()
    steps: list[Step] = []
    console.print(
        "\n[bold]Ten digits, one class at a time.[/] Each example is seen once and thrown away. "
        "Accuracy is on all classes so far; on the right, keeping everything and training again.\n"
    )
    with Live(table_of(steps), console=console, refresh_per_second=8) as live:
        for digit in range(10):
            steps.append(teach(learner, digit, X, y, X_test, y_test))
            live.update(table_of(steps))
    picture = draw(steps)
    model = OUT / "digits.everlearn"
    save(learner, model)
    again = load(model)
    sample = X_test[0]
    console.print(
        f"\nSaved the model to [bold]{model}[/] ({model.stat().st_size / 1024:.0f} KB), loaded it "
        f"again and asked: a {y_test[0]} is recognised as [bold]{again.predict_one(sample)}[/]; "
        f"accuracy on all ten digits {again.score(X_test, y_test):.1%}.\n"
        f"The picture is [bold]{picture}[/].\n"
    )
    console.print("[bold]The same with image files:[/]\n")
    images.run(lambda sentence: console.print(sentence, highlight=False))


def warm_up(X: np.ndarray) -> None:
    learner = StreamingLDA()
    for row in X[:3]:
        learner.learn_one(row, 0)
        learner.predict_one(row)


def teach(
    learner: StreamingLDA,
    digit: int,
    X: np.ndarray,
    y: np.ndarray,
    X_test: np.ndarray,
    y_test: np.ndarray,
) -> Step:
    new = X[y == digit]
    start = time.perf_counter()
    for x in new:
        learner.learn_one(x, digit)
    learn_us = 1e6 * (time.perf_counter() - start) / len(new)
    seen, asked = y <= digit, y_test <= digit
    accuracy = float(learner.score(X_test[asked], y_test[asked]))
    memory = sum(array.nbytes for array in learner.moments_.state().values())
    retrained_accuracy, retrain_us = retrain(X[seen], y[seen], X_test[asked], y_test[asked])
    return Step(
        digit,
        int(seen.sum()),
        accuracy,
        learn_us,
        memory / 1024,
        retrained_accuracy,
        retrain_us,
        X[seen].nbytes / 1024,
    )


def retrain(
    X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray
) -> tuple[float, float]:
    """The usual approach: keep all examples, and train again for a new class."""
    n_classes = len(np.unique(y))
    if n_classes == 1:  # scikit-learn's LDA cannot be trained on a single class
        return 1.0, float("nan")
    rival = LinearDiscriminantAnalysis(
        solver="lsqr", shrinkage=1e-4, priors=[1 / n_classes] * n_classes
    )
    start = time.perf_counter()
    rival.fit(X, y)
    return float(rival.score(X_test, y_test)), 1e6 * (time.perf_counter() - start)


def table_of(steps: list[Step]) -> Table:
    table = Table()
    for column in ("digits", "examples", "accuracy", "learn one", "memory"):
        table.add_column(column, justify="right")
    for column in ("retrained", "for one more", "keeps"):
        table.add_column(column, justify="right", style="dim")
    for step in steps:
        table.add_row(
            f"0-{step.digit}",
            str(step.n_examples),
            f"{step.accuracy:.1%}",
            f"{step.learn_us:.0f} µs",
            f"{step.memory_kb:.0f} KB",
            f"{step.retrained_accuracy:.1%}",
            "-" if np.isnan(step.retrain_us) else f"{step.retrain_us:,.0f} µs",
            f"{step.kept_kb:.0f} KB",
        )
    return table


def draw(steps: list[Step]) -> Path:
    OUT.mkdir(exist_ok=True)
    classes = [step.digit + 1 for step in steps]
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    left.plot(
        classes, [s.accuracy for s in steps], "ko-", label="everlearn, each example seen once"
    )
    left.plot(classes, [s.retrained_accuracy for s in steps], "k:", label="retrained on everything")
    left.set(xlabel="classes taught", ylabel="accuracy on all classes so far", ylim=(0.8, 1.01))
    right.semilogy(classes, [s.learn_us for s in steps], "ko-", label="everlearn")
    right.semilogy(classes, [s.retrain_us for s in steps], "k:", label="retraining")
    right.set(xlabel="classes taught", ylabel="µs to learn one example")
    for axes in (left, right):
        axes.legend(frameon=False)
        axes.spines[["top", "right"]].set_visible(False)
    path = OUT / "digits.png"
    figure.savefig(path, dpi=130)
    return path


if __name__ == "__main__":
    main()
