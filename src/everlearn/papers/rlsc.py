"""Camoriano et al. 2017: recursive least squares with class extension and recoding.

The protocol of Sec. VI-A: all classes but one are learned from the same number of examples, then
that one comes in example by example. λ is chosen anew for every α on validation examples of the
balanced classes (caption of Fig. 2), 20 values from 1 to 1e-3 times the number of examples. The
statistics are learned once: λ and α are changed after the fact.
"""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everlearn.evaluation import plots
from everlearn.evaluation.metrics import accuracy, rare_class_accuracy
from everlearn.evaluation.repeat import Result
from everlearn.evaluation.table import Table
from everlearn.learners.rlsc import RecursiveRLSC
from everlearn.papers.report import Section, Setting, published, spread
from everlearn.streams import packs
from everlearn.streams.examples import DataSet, Examples
from everlearn.streams.orderings import balanced_then_rare

Array = NDArray[np.float64]

TITLE = (
    "RLSC: Incremental Robot Learning of New Objects with Fixed Update Time "
    "(Camoriano et al., ICRA 2017)"
)
REGULARIZATIONS = np.logspace(0, -3, 20)
RECODINGS = tuple(round(0.1 * step, 1) for step in range(11))
SIZES = [1, 5, 10, 50, 100, 500]
METHODS = {"N": "Naive", "RB": "Rebalancing", "RC": "Recoding"}
MNIST_RARE = 8
# The turntable has 73 frames an object: as many as possible to learn, a fifth of it to choose by.
TURNTABLE_SIZES = [1, 5, 10, 20, 35]
TURNTABLE_BALANCED = 35


def table1(setting: Setting) -> Section:
    """Table I: total and rare-class accuracy as the rare class comes in."""
    table = Table()
    _mnist_rows(table, setting)
    if not setting.quick:
        _turntable_rows(table, setting, "frames", "iCubWorld28")
        _turntable_rows(table, setting, "views", "RGB-D")
    return Section(
        "Table I: one class with few examples",
        "MNIST (the paper's own). icub_camera50 (50 objects on a turntable, EfficientNet-Lite0 "
        "features) is a **substitute** for iCubWorld28 (frames drawn at random) and for RGB-D "
        "Washington (tested on the last third of the rotation, learned from the rest).",
        "Accuracy in per cent, mean ± standard deviation over seeds. N: naive RLSC, RB: "
        "rebalanced loss, RC: recoding. The substitutes' features tell objects apart far better, "
        "so only the pattern can be compared: naive needs the most examples before it finds the "
        "rare class. There rebalancing is ahead of recoding, other than published. "
        "*within* asks of MNIST: totals within 1 point, rare-class accuracy within two published "
        "standard deviations + 3 points; – where nothing comparable was published. Where a "
        "rebalanced row is not within, see *Rebalancing and λ* below.",
        table,
    )


def rebalancing(setting: Setting) -> Section:
    """Why our rebalanced rows of Table I are lower: what λ does to them."""
    sizes = [10] if setting.quick else [5, 10, 50]
    runs = setting.repeat(
        rebalanced_by_regularization,
        "rebalancing",
        3,
        n_balanced=200 if setting.quick else 1000,
        sizes=sizes,
        relative=[0.1, 0.01] if setting.quick else [1.0, 0.3, 0.1, 0.03, 0.01, 0.003],
    )
    theirs = {row["n_imb"]: row["rare"]["RB"] for row in published("rlsc")["table1"]["MNIST"]}
    table = Table()
    for i, size in enumerate(sizes):
        for j, relative in enumerate(runs[0]["relative"]):
            table.add(
                n_imb=size,
                **{
                    "λ / n": relative,
                    "validation (balanced)": spread([r["validation"][i][j] for r in runs]),
                    "published rare": _printed(theirs[size]),
                    "measured rare": spread([r["rare"][i][j] for r in runs]),
                    "measured total": spread([r["total"][i][j] for r in runs]),
                },
            )
    return Section(
        "Rebalancing and λ: why those rows of Table I differ",
        "MNIST, digit 8 rare",
        "λ is chosen on validation examples of the balanced classes. From λ = 0.3 n to 0.01 n "
        "their accuracy rises by some two points, half a point of it below 0.1 n, while rebalanced "
        "accuracy on the rare class falls by more than half at 5 examples. The highest validation "
        "accuracy, and with it our rows of Table I, lies near 0.01 n; the published ones lie "
        "between 0.1 n and 0.3 n. So the difference is one of choosing λ, on a nearly flat "
        "validation curve, and not of the method.",
        table,
    )


def fig1(setting: Setting) -> Section:
    """Fig. 1: where the Bayes boundary between two Gaussians lies, in closed form."""
    numbers = published("rlsc")["fig1"]
    table = Table()
    drawn, axes = plots.figure(len(numbers["gammas"]), width=2.6, height=2.8)
    side = np.linspace(-3.0, 3.0, 301)
    points = np.stack(np.meshgrid(side, side), axis=-1)
    for panel, gamma in zip(axes[0], numbers["gammas"], strict=True):
        plain = _log_odds(points, numbers["means"], numbers["deviations"], gamma)
        rebalanced = _log_odds(points, numbers["means"], numbers["deviations"], 0.5)
        panel.set_facecolor("0.6")
        panel.contour(side, side, plain, levels=[0.0], colors="white", linestyles="dashed")
        panel.contour(side, side, rebalanced, levels=[0.0], colors="black", linestyles="dotted")
        panel.plot(*np.transpose(numbers["means"]), "k+")
        panel.set(title=f"γ = {gamma}", aspect="equal")
        crossing = boundary_on_axis(numbers["means"], numbers["deviations"], gamma)
        table.add(
            γ=gamma,
            **{
                "standard boundary at x =": crossing,
                "rebalanced boundary at x =": boundary_on_axis(
                    numbers["means"], numbers["deviations"], 0.5
                ),
            },
        )
    return Section(
        "Fig. 1: the Bayes boundary and class frequency",
        "two Gaussians, as in the paper (exact)",
        "White dashes: the boundary of the standard loss; black dots: of the rebalanced one; "
        "crosses: the means. They coincide at γ = 0.5, and only the standard one moves "
        "with γ. The table gives where they cross the line between the means.",
        table,
        {"": drawn},
    )


def fig2(setting: Setting) -> Section:
    """Fig. 2: accuracy on the rare class and on the others as α grows."""
    trials = _mnist_trials(setting, MNIST_RARE, "mnist", 10, rebalance=True)
    table = Table()
    sizes = _mnist_sizes(setting)
    drawn, axes = plots.figure(2)
    for panel, kind in zip(axes[0], ("rare", "balanced"), strict=True):
        curves = {
            f"{size} examples": [[t["sweep"][str(a)][kind][i] for a in RECODINGS] for t in trials]
            for i, size in enumerate(sizes)
        }
        plots.draw_curves(
            panel, RECODINGS, curves, x_label="α", y_label="accuracy (%)", title=f"{kind} class"
        )
    for alpha in RECODINGS:
        row: dict[str, Any] = {"α": alpha}
        for i, size in enumerate(sizes):
            for kind in ("rare", "balanced"):
                row[f"{kind}, n={size}"] = spread([t["sweep"][str(alpha)][kind][i] for t in trials])
        table.add(**row)
    return Section(
        "Fig. 2: the recoding exponent α",
        "MNIST, digit 8 rare (the paper shows iCubWorld28, and prints no numbers)",
        "As published: with growing α the rare class gains, and the others lose, little up to "
        "α ≈ 0.7.",
        table,
        {"": drawn},
    )


def fig3(setting: Setting) -> Section:
    """Fig. 3: naive and recoded accuracy as examples come in, averaged over which class is rare."""
    digits = range(2) if setting.quick else range(10)
    seeds = 1  # for each digit; the average is over digits
    trials = [
        trial
        for digit in digits
        for trial in _mnist_trials(setting, digit, "every-digit", seeds, rebalance=False)
    ]
    sizes = _mnist_sizes(setting)
    drawn, axes = plots.figure(3, width=3.6)
    table = Table()
    for panel, kind in zip(axes[0], ("rare", "balanced", "total"), strict=True):
        curves = {METHODS[m]: [trial[m][kind] for trial in trials] for m in ("N", "RC")}
        plots.draw_curves(
            panel, sizes, curves, x_label="n_imb", y_label="accuracy (%)", title=f"{kind}"
        )
        panel.set_xscale("log")
    for i, size in enumerate(sizes):
        row: dict[str, Any] = {"n_imb": size}
        for kind in ("rare", "balanced", "total"):
            for method in ("N", "RC"):
                row[f"{kind} {method}"] = spread([trial[method][kind][i] for trial in trials])
        table.add(**row)
    return Section(
        "Fig. 3: every class rare in turn",
        f"MNIST, {len(digits)} digits",
        "As published: recoding is much better on the rare class and comparable on the others, so "
        "better in total. (The paper prints no numbers.)",
        table,
        {"": drawn},
    )


PARTS = {
    "fig1": fig1,
    "fig2": fig2,
    "fig3": fig3,
    "table1": table1,
    "rebalancing": rebalancing,
}


def boundary_on_axis(means: list[list[float]], deviations: list[float], gamma: float) -> float:
    """Where between the two means both classes are as likely, on the line that joins them."""
    (left, _), (right, _) = means
    line = np.linspace(left, right, 200_001)
    odds = _log_odds(np.column_stack([line, np.zeros_like(line)]), means, deviations, gamma)
    return float(line[np.flatnonzero(odds > 0)[-1]])


def _log_odds(
    points: Array, means: list[list[float]], deviations: list[float], gamma: float
) -> Array:
    """Eq. 6 as log γ ρ(x|1) − log (1−γ) ρ(x|−1), for two round Gaussians of the plane."""
    parts = []
    for mean, deviation, prior in zip(means, deviations, (gamma, 1.0 - gamma), strict=True):
        square = np.sum((points - np.array(mean)) ** 2, axis=-1)
        parts.append(np.log(prior) - square / (2 * deviation**2) - 2 * np.log(deviation))
    difference: Array = parts[0] - parts[1]
    return difference


def _mnist_sizes(setting: Setting) -> list[int]:
    return SIZES[:4] if setting.quick else SIZES


def _mnist_trials(
    setting: Setting, rare: int, part: str, usual: int, *, rebalance: bool
) -> list[Result]:
    return setting.repeat(
        imbalance,
        f"{part}-{rare}",
        usual,
        data="mnist",
        rare=rare,
        n_balanced=200 if setting.quick else 1000,
        n_test=100 if setting.quick else 200,
        sizes=_mnist_sizes(setting),
        alpha=published("rlsc")["table1"]["alpha"]["MNIST"],
        rebalance=rebalance,
    )


def _mnist_rows(table: Table, setting: Setting) -> None:
    trials = _mnist_trials(setting, MNIST_RARE, "mnist", 10, rebalance=True)
    rows = {row["n_imb"]: row for row in published("rlsc")["table1"]["MNIST"]}
    for i, size in enumerate(_mnist_sizes(setting)):
        for kind in ("total", "rare"):
            for method, name in METHODS.items():
                theirs = rows.get(size, {}).get(kind, {}).get(method)
                ours = np.array([trial[method][kind][i] for trial in trials])
                table.add(
                    data="MNIST",
                    n_imb=size,
                    accuracy=kind,
                    method=name,
                    published=_printed(theirs),
                    measured=spread(ours),
                    within="–" if theirs is None else _within(kind, theirs, float(ours.mean())),
                )


def _turntable_rows(table: Table, setting: Setting, data: str, stands_for: str) -> None:
    numbers = published("rlsc")["table1"]
    trials = setting.repeat(
        imbalance,
        f"turntable-{data}",
        5,
        data=data,
        rare=27,
        n_balanced=TURNTABLE_BALANCED,
        n_test=20,
        sizes=TURNTABLE_SIZES,
        alpha=numbers["alpha"][stands_for],
        rebalance=True,
    )
    rows = {row["n_imb"]: row for row in numbers[stands_for]}
    for i, size in enumerate(TURNTABLE_SIZES):
        for kind in ("total", "rare"):
            for method, name in METHODS.items():
                table.add(
                    data=f"icub_camera50 for {stands_for}",
                    n_imb=size,
                    accuracy=kind,
                    method=name,
                    published=_printed(rows.get(size, {}).get(kind, {}).get(method)),
                    measured=spread([trial[method][kind][i] for trial in trials]),
                    within="–",
                )


def _printed(value: list[float] | None) -> str | None:
    return None if value is None else f"{value[0]:.1f} ± {value[1]:.1f}"


def _within(kind: str, theirs: list[float], ours: float) -> str:
    tolerance = 1.0 if kind == "total" else 2 * theirs[1] + 3.0
    difference = ours - theirs[0]
    return "yes" if abs(difference) <= tolerance else f"no ({difference:+.1f})"


def imbalance(
    seed: int,
    *,
    data: str,
    rare: int,
    n_balanced: int,
    n_test: int,
    sizes: list[int],
    alpha: float,
    rebalance: bool,
) -> Result:
    """One trial of Sec. VI-A; accuracies in per cent by method, kind and number of rare examples.

    ``sweep`` has the rare-class and balanced accuracies for every α (Fig. 2).
    """
    source = _data(data)
    rng = np.random.default_rng(seed)
    split = balanced_then_rare(
        source.train.y,
        rare,
        n_balanced=n_balanced,
        n_rare=max(sizes),
        n_validation=n_balanced // 5,
        seed=rng,
    )
    balanced, new = source.train.take(split.balanced), source.train.take(split.rare)
    validation = source.train.take(split.validation)
    test = _drawn(source.test, n_test, rng)
    candidates = REGULARIZATIONS * len(balanced)
    result: Result = {m: {"total": [], "rare": [], "balanced": []} for m in METHODS}
    result["sweep"] = {str(a): {"total": [], "rare": [], "balanced": []} for a in RECODINGS}
    learner = RecursiveRLSC(recoding=0.0).fit(balanced.X, balanced.y)
    taught = 0
    for size in sizes:
        learner.partial_fit(new.X[taught:size], new.y[taught:size])
        taught = size
        answers = answers_by_recoding(learner, candidates, validation, test, (*RECODINGS, alpha))
        for a in RECODINGS:
            _note(result["sweep"][str(a)], test, answers[a], rare)
        _note(result["N"], test, answers[0.0], rare)
        _note(result["RC"], test, answers[alpha], rare)
        if rebalance:
            other = _rebalanced(balanced, new.take(slice(size)))
            answer = answers_by_recoding(other, candidates, validation, test, (0.0,))[0.0]
            _note(result["RB"], test, answer, rare)
    return result


def rebalanced_by_regularization(
    seed: int, *, n_balanced: int, sizes: list[int], relative: list[float]
) -> Result:
    """Accuracies of rebalancing for several λ, each given as a share of the examples."""
    source = _data("mnist")
    rng = np.random.default_rng(seed)
    split = balanced_then_rare(
        source.train.y,
        MNIST_RARE,
        n_balanced=n_balanced,
        n_rare=max(sizes),
        n_validation=n_balanced // 5,
        seed=rng,
    )
    balanced, new = source.train.take(split.balanced), source.train.take(split.rare)
    validation, test = source.train.take(split.validation), _drawn(source.test, 200, rng)
    result: Result = {"relative": relative, "validation": [], "rare": [], "total": []}
    for size in sizes:
        learner = _rebalanced(balanced, new.take(slice(size)))
        rows: dict[str, list[float]] = {"validation": [], "rare": [], "total": []}
        for share in relative:
            learner.set_params(regularization=share * len(balanced))
            rows["validation"].append(100 * learner.score(validation.X, validation.y))
            answers = learner.predict(test.X)
            rows["rare"].append(100 * rare_class_accuracy(test.y, answers, MNIST_RARE)[0])
            rows["total"].append(100 * accuracy(test.y, answers))
        for name, values in rows.items():
            result[name].append(values)
    return result


def answers_by_recoding(
    learner: RecursiveRLSC,
    candidates: Array,
    validation: Examples,
    test: Examples,
    recodings: tuple[float, ...],
) -> dict[float, NDArray[Any]]:
    """What the learner answers for every α, each with the λ that does best on the validation set.

    Recoding is a scale per class, (N / n_k)^α, so one solution per λ serves every α.
    """
    rows = np.concatenate([validation.X, test.X])
    counts = learner.moments_.counts[learner.labels_.order]
    classes = learner.classes_
    best = dict.fromkeys(recodings, -1.0)
    answers: dict[float, NDArray[Any]] = {}
    for lam in candidates:
        scores = learner.set_params(regularization=float(lam)).decision_function(rows)
        for alpha in recodings:
            given = classes[(scores * (counts.sum() / counts) ** alpha).argmax(axis=1)]
            right = accuracy(validation.y, given[: len(validation)])
            if right > best[alpha]:
                best[alpha] = right
                answers[alpha] = given[len(validation) :]
    return answers


def _rebalanced(balanced: Examples, new: Examples) -> RecursiveRLSC:
    """Eq. 22: every class weighs the same; the common factor is such that most weights are 1."""
    X, y = np.concatenate([balanced.X, new.X]), np.concatenate([balanced.y, new.y])
    _, slots, counts = np.unique(y, return_inverse=True, return_counts=True)
    weights = len(y) / (len(counts) * counts)
    return RecursiveRLSC(recoding=0.0).fit(X, y, sample_weight=weights[slots])


def _note(lists: dict[str, list[float]], test: Examples, answers: NDArray[Any], rare: int) -> None:
    of_rare, of_others = rare_class_accuracy(test.y, answers, rare)
    lists["total"].append(100 * accuracy(test.y, answers))
    lists["rare"].append(100 * of_rare)
    lists["balanced"].append(100 * of_others)


def _drawn(examples: Examples, n: int, rng: np.random.Generator) -> Examples:
    """So many examples of every class."""
    chosen = [
        rng.permutation(np.flatnonzero(examples.y == label))[:n] for label in examples.classes
    ]
    return examples.take(np.concatenate(chosen))


@cache
def _data(name: str) -> DataSet:
    if name == "mnist":
        return packs.mnist()
    examples, frame = packs.turntable_frames()
    is_test = frame % 3 == 0 if name == "frames" else frame >= 2 * (int(frame.max()) + 1) // 3
    return DataSet("icub_camera50", examples.take(~is_test), examples.take(is_test))
