"""Tommasi et al. 2012: transfer learning initialises online learning.

A target class against a background, samples alternating; detectors of other classes are the prior
knowledge. Measured are the recognition rate on a test set after some samples, and the mistakes from
the seventh sample on. The paper prints curves and no numbers, so the claims of its text are quoted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from everlearn.evaluation.table import Table
from everlearn_papers import plots
from everlearn_papers.data.embedded import is_there
from everlearn_papers.repeat import Result
from everlearn_papers.report import Section, Setting, published, spread
from everlearn_papers.transfer.cost import N_FEATURES, N_PRIORS, growth, learning_times
from everlearn_papers.transfer.experiments import (
    N_BACKGROUND,
    N_SOURCE,
    from_another_domain,
    from_the_others,
    one_prior,
)
from everlearn_papers.transfer.tasks import BATCH, CHECKPOINTS, GRID, INTERCEPT, N_FIRST, SCALED

TITLE = (
    "Transfer: Leveraging over prior knowledge for online learning of visual categories "
    "(Tommasi et al., BMVC 2012)"
)


@dataclass(frozen=True)
class Source:
    """A data set, and the classes that the figures use."""

    data: str
    features: tuple[str, ...]
    pairs: dict[str, tuple[str, str]]  # from unrelated to related
    four: tuple[str, ...]


SUBSTITUTE = Source(
    "Caltech-101, EfficientNet-Lite0 features: a **substitute** for SIFT features of Caltech-256. "
    "The network was trained on ImageNet, which has most of these classes, so that little is left "
    "to learn; every fortieth feature alone, 32 of them, leaves more.",
    ("caltech101", "caltech101-32"),
    {
        "unrelated": ("watch", "bonsai"),
        "intermediate": ("helicopter", "airplanes"),
        "related": ("ketch", "schooner"),
    },
    ("airplanes", "Motorbikes", "Faces", "Leopards"),
)
ORIGINAL = Source(
    "Caltech-256 (the paper's own images), EfficientNet-Lite0 features for SIFT.",
    ("caltech256",),
    {
        "unrelated": ("fireworks", "treadmill"),
        "intermediate": ("school-bus", "dog"),
        "related": ("coffee-mug", "beer-mug"),
    },
    ("airplanes-101", "motorbikes-101", "faces-easy-101", "leopards-101"),
)
WORDS = {
    "caltech101": "all 1,280 features",
    "caltech101-32": "32 of the features",
    "caltech256": "all 1,280 features",
}
# Draws of the background; two sample orders each make ten orders, as in the paper.
DRAWS, ALL_DRAWS = 5, 3
SOURCES = {False: "many negatives", True: "balanced"}
SHOWN_AT = (6, 10, 20, 60)
TICKS = (0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 7, 10, 15, 20, 30, 50)


def fig1(setting: Setting) -> Section:
    """Fig. 1: one prior, from unrelated to related."""
    table = Table()
    panels: dict[str, list[Result]] = {}
    for features, words in _features(setting).items():
        for kind, pair in source().pairs.items():
            runs = setting.repeat(
                one_prior,
                f"pair-{kind}-{features}",
                DRAWS,
                features=features,
                pair=list(pair),
                orderings=_orderings(setting),
            )
            name = f"{kind}: {pair[0]}, {pair[1]}"
            _add(table, {"features": words, "prior": name}, runs)
            panels[f"{name}\n({words})"] = runs
    return Section(
        "Fig. 1: a single source",
        source().data,
        f"{_text('fig1', setting.n_seeds(DRAWS), _orderings(setting))} {_sources(panels)}",
        table,
        {"": _drawn(panels, 3)},
    )


def fig2(setting: Setting) -> Section:
    """Fig. 2: four unrelated classes, each learned from the other three."""
    table = Table()
    panels = {}
    for features, words in _features(setting).items():
        for balanced, kind in SOURCES.items():
            runs = setting.repeat(
                from_the_others,
                f"four-{features}{'-balanced' * balanced}",
                DRAWS,
                features=features,
                names=list(source().four),
                orderings=_orderings(setting),
                balanced=balanced,
            )
            _add(table, {"features": words, "sources": kind}, runs)
            panels[f"{words}, sources: {kind}"] = runs
    weights = _drawn_weights(next(iter(panels.values()))[0]["weights"])
    return Section(
        "Fig. 2: four unrelated classes",
        source().data,
        f"{_text('fig2', setting.n_seeds(DRAWS), _orderings(setting))} {_sources(panels)}",
        table,
        {"": _drawn(panels, 2), "weights": weights},
    )


def fig3(setting: Setting) -> Section:
    """Fig. 3: each class as target, all others as priors."""
    table = Table()
    panels = {}
    for features, words in _features(setting).items():
        runs = setting.repeat(
            from_the_others,
            f"all-{features}",
            ALL_DRAWS,
            features=features,
            limit=3 if setting.quick else None,
        )
        _add(table, {"features": words}, runs)
        panels[words] = runs
    first = next(iter(panels.values()))[0]
    return Section(
        "Fig. 3: all classes with 60 images or more",
        source().data,
        f"{_text('fig3', setting.n_seeds(ALL_DRAWS), 1)} {first['n_targets']} targets, "
        f"{first['n_priors']} priors each. {_sources(panels)}",
        table,
        {"": _drawn(panels, 2)},
    )


def domains(setting: Setting) -> Section:
    """Not in the paper: priors from another domain, on SURF histograms."""
    table = Table()
    panels = {}
    for same_class in (True, False):
        words = f"the same class {'among' if same_class else 'not among'} the priors"
        runs = setting.repeat(
            from_another_domain,
            f"domains-{'with' if same_class else 'without'}",
            DRAWS,
            same_class=same_class,
            orderings=1,
        )
        _add(table, {"priors": words}, runs)
        panels[words] = runs
    return Section(
        "SURF histograms, priors from another domain (not in the paper)",
        "Office-Caltech10: seven classes of product pictures (amazon) with detectors learned on "
        "Caltech photographs, three classes as background; histograms of 800 SURF words, the kind "
        "of features the paper used. No saturation here.",
        f"{_columns(setting.n_seeds(DRAWS), 1)} With the background the targets change. "
        f"{_chosen(panels)}",
        table,
        {"": _drawn(panels, 2)},
    )


def cost(setting: Setting) -> Section:
    """Sec. 2: O(T²) online, O(T³ + k T²) for Multi-KT, measured."""
    sizes = [100, 200] if setting.quick else [250, 500, 1000, 2000, 4000]
    run = setting.once().repeat(learning_times, "cost", 1, sizes=sizes)[0]
    table = Table()
    for place, size in enumerate(sizes):
        row = {f"{name}, s": f"{run[name][place]:.3f}" for name in ("TROL", "Multi-KT")}
        table.add(samples=size, **row)
    table.add(
        samples="exponent, last two",
        **{f"{name}, s": f"{growth(sizes, run[name]):.1f}" for name in ("TROL", "Multi-KT")},
    )
    return Section(
        "Sec. 2: what learning T samples costs",
        f"Random samples with {N_FEATURES} features, which nothing tells apart; {N_PRIORS} priors.",
        "*Published*: learning T samples online costs O(T²), Multi-KT O(T³ + k T²). *Measured*: "
        "processor seconds of one thread, TROL one by one over all samples, Multi-KT once on all "
        "of them; the last row is p of T^p between the last two sizes.",
        table,
    )


PARTS = {"fig1": fig1, "fig2": fig2, "fig3": fig3, "domains": domains, "cost": cost}


def source() -> Source:
    """Caltech-256 if it is found, else its substitute."""
    return ORIGINAL if is_there("caltech256") else SUBSTITUTE


def _features(setting: Setting) -> dict[str, str]:
    names = source().features
    return {name: WORDS[name] for name in (names[:1] if setting.quick else names)}


def _orderings(setting: Setting) -> int:
    return 1 if setting.quick else 2


def _text(figure: str, draws: int, orderings: int) -> str:
    claim = published("transfer")[figure]["claim"]
    words = _columns(draws, orderings)
    return f"*Published* (no numbers are printed): {claim} *Measured*: {words}"


def _sources(panels: Mapping[str, Sequence[Result]]) -> str:
    """Sentences on the training data of the prior detectors."""
    counts = {run["negatives"] for runs in panels.values() for run in runs}
    many = sorted(counts - {N_SOURCE})
    negatives = f"{many[0]} to {many[-1]}" if many else "no"
    if N_SOURCE in counts:
        negatives += f" or, *balanced*, {N_SOURCE}"
    return (
        f"A source is learned from {N_SOURCE} positives and {negatives} negatives (the paper's "
        f"are balanced), all of {N_BACKGROUND} background classes, whose other images are the "
        f"targets' negatives. {_chosen(panels)} Where a standard deviation is as large as a "
        "difference, the difference says nothing."
    )


def _chosen(panels: Mapping[str, Sequence[Result]]) -> str:
    """Sentence on the chosen values of C."""
    values = sorted({C for runs in panels.values() for run in runs for C in run["C"]})
    return (
        f"C of the sources, of Multi-KT and of NOTR, by the leave-one-out loss of the sources: "
        f"{', '.join(f'{C:g}' for C in values)}, of {GRID[0]:g} to {GRID[-1]:g} and beyond where "
        "the best is at an end; of all online learners 1."
    )


def _columns(draws: int, orderings: int) -> str:
    return (
        "mistakes among samples 7 to 60 and recognition in per cent; mean ± standard deviation "
        f"over {draws} draw{'s' * (draws > 1)} of the background, {orderings} "
        f"order{'s' * (orderings > 1)} of the samples each. "
        "Priors are h_j(x) = ŵ_j·x, as Sec. 2.2 defines them; *with intercepts* adds what "
        "the least squares SVM of each source was trained with; *scaled* divides the k features of "
        "TROL+ (priors) by √k, which Eq. 13 does not. *Bound* is Theorem 1 for the best "
        "multiple of what Multi-KT knew."
    )


def _add(table: Table, first: dict[str, Any], runs: list[Result]) -> None:
    for name in runs[0]["recognition"]:
        rates = 100 * np.array([run["recognition"][name] for run in runs])
        row = {**first, "method": name}
        row["mistakes 7-60"] = (
            None if name in BATCH else spread([run["mistakes"][name][-1] for run in runs])
        )
        row["bound"] = spread([run["bound"] for run in runs]) if name == "TROL+" else None
        for t in SHOWN_AT:
            row[f"at {t}"] = spread(rates[:, CHECKPOINTS.index(t)])
        table.add(**row)


def _drawn(panels: Mapping[str, Sequence[Result]], n_columns: int) -> Any:
    """Figure of test errors (upper panels) and mistake rates (lower) of the paper's methods."""
    blocks = -(-len(panels) // n_columns)
    drawn, axes = plots.figure(n_columns, 2 * blocks, width=4.4, height=3.0)
    for place, (title, runs) in enumerate(panels.items()):
        block, column = divmod(place, n_columns)
        above, below = axes[2 * block, column], axes[2 * block + 1, column]
        names = [name for name in runs[0]["recognition"] if not name.endswith((INTERCEPT, SCALED))]
        errors = {
            name: 100 - 100 * np.mean([run["recognition"][name] for run in runs], axis=0)
            for name in names
        }
        # Batch methods have no mistakes (nan), but stay in the list so that all keep their style.
        mistakes = {name: _mistake_rates(runs, name) for name in names}
        plots.draw_curves(
            above, CHECKPOINTS, errors, x_label="samples", y_label="test error (%)", title=title
        )
        plots.draw_curves(
            below,
            CHECKPOINTS[1:],
            mistakes,
            x_label="samples",
            y_label="mistakes since the 7th (%)",
        )
        above.set_yscale("log", subs=())
        above.set_yticks([t for t in TICKS if above.get_ylim()[0] <= t <= above.get_ylim()[1]])
        above.yaxis.set_major_formatter("{x:g}")
        for panel in (above, below):
            panel.set_xticks(SHOWN_AT)
    plots.one_legend(drawn, axes)
    return drawn


def _mistake_rates(runs: Sequence[Result], name: str) -> Any:
    """Mistakes from the seventh sample on, in per cent of these samples."""
    if name in BATCH:
        return np.full(len(CHECKPOINTS) - 1, np.nan)
    asked = np.array(CHECKPOINTS[1:]) - N_FIRST
    return 100 * np.mean([run["mistakes"][name][1:] for run in runs], axis=0) / asked


def _drawn_weights(targets: dict[str, Any]) -> Any:
    """Figure of the weights of sources and target in the OTL-related methods, and β."""
    n_columns = len(next(iter(targets.values())))
    drawn, axes = plots.figure(n_columns, len(targets), width=3.2, height=2.6)
    for row, (target, weights) in zip(axes, targets.items(), strict=True):
        beta = weights["β"]
        shown = {name: np.array(history) for name, history in weights.items() if name != "β"}
        for panel, (name, history) in zip(row, shown.items(), strict=False):
            own = {"sources (sum)": history[:, :-1].sum(axis=1), "target": history[:, -1]}
            if history.shape[1] > 2:
                own |= {f"source {j + 1}": history[:, j] for j in range(history.shape[1] - 1)}
            plots.draw_curves(
                panel,
                range(len(history)),
                own,
                x_label="samples",
                y_label="weight",
                title=f"{target}: {name}",
            )
            panel.set_ylim(-0.02, 1.02)
        row[-1].bar(range(1, len(beta) + 1), beta, color="0.6", edgecolor="black")
        row[-1].set(title="Multi-KT", xlabel="source", ylabel="β")
        row[-1].set_xticks(range(1, len(beta) + 1))
    return drawn
