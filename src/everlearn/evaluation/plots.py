"""Figures that can be read in black and white: lines differ in dashes and marks, not only in hue.

Every function gives a matplotlib ``Figure``; none touches matplotlib's global state.
"""

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from everlearn.errors import MissingPackage

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LINES = ("-", "--", "-.", ":")
MARKS = ("o", "s", "^", "D", "v", "x")
# Dark to light in grey, and apart for eyes that confuse red and green.
COLOURS = ("#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#999999")


def figure(n_columns: int = 1, n_rows: int = 1, *, width: float = 5.0, height: float = 3.4) -> Any:
    """An empty figure and its axes."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise MissingPackage(
            "figures need matplotlib; install it with: pip install 'everlearn[plots]'"
        ) from None
    made = Figure(figsize=(width * n_columns, height * n_rows), layout="constrained")
    return made, made.subplots(n_rows, n_columns, squeeze=False)


def draw_curves(
    axes: "Axes",
    x: Sequence[float],
    curves: Mapping[str, ArrayLike],
    *,
    x_label: str,
    y_label: str,
    title: str = "",
) -> None:
    """Mean over rows as a line, one standard deviation as a band; one curve per name."""
    styles = zip(cycle(LINES), cycle(MARKS), cycle(COLOURS), strict=False)
    for (name, values), (dash, mark, colour) in zip(curves.items(), styles, strict=False):
        runs = np.atleast_2d(np.asarray(values, float))
        mean = runs.mean(axis=0)
        axes.plot(x, mean, dash, marker=mark, markersize=4, color=colour, label=name)
        if len(runs) > 1:
            spread = runs.std(axis=0)
            axes.fill_between(x, mean - spread, mean + spread, color=colour, alpha=0.15, lw=0)
    axes.set(xlabel=x_label, ylabel=y_label, title=title)
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")


def learning_curves(
    x: Sequence[float],
    curves: Mapping[str, ArrayLike],
    *,
    x_label: str = "examples learned",
    y_label: str = "accuracy",
    title: str = "",
) -> "Figure":
    """Accuracy as a stream goes on; an array of shape (seeds, checkpoints) per name."""
    made, axes = figure()
    draw_curves(axes[0, 0], x, curves, x_label=x_label, y_label=y_label, title=title)
    return made


def accuracy_against_time(
    points: Mapping[str, tuple[float, float]], *, x_label: str = "seconds", title: str = ""
) -> "Figure":
    """One point per name, (seconds, accuracy), on a logarithmic axis of time."""
    made, axes = figure()
    # Names alternate above and below their points, so that neighbours do not meet.
    styles = zip(cycle(MARKS), cycle(COLOURS), cycle((9, -16)), strict=False)
    for (name, point), (mark, colour, height) in zip(points.items(), styles, strict=False):
        axes[0, 0].plot(*point, mark, color=colour, markersize=8)
        axes[0, 0].annotate(
            name,
            point,
            xytext=(0, height),
            textcoords="offset points",
            ha="center",
            fontsize="small",
        )
    axes[0, 0].set(xscale="log", xlabel=x_label, ylabel="accuracy", title=title)
    axes[0, 0].grid(alpha=0.3)
    axes[0, 0].margins(0.2)
    return made


def confusion_matrix(counts: ArrayLike, classes: Sequence[Any], *, title: str = "") -> "Figure":
    """Shares of each right class; the darker, the more."""
    made, axes = figure(width=4.5, height=4.2)
    table = np.asarray(counts, float)
    totals = table.sum(axis=1, keepdims=True)
    shares = np.divide(table, totals, out=np.zeros_like(table), where=totals > 0)
    image = axes[0, 0].imshow(shares, cmap="Greys", vmin=0.0, vmax=1.0)
    axes[0, 0].set(xlabel="answer", ylabel="right class", title=title)
    if len(classes) <= 20:
        axes[0, 0].set_xticks(range(len(classes)), [str(name) for name in classes], rotation=90)
        axes[0, 0].set_yticks(range(len(classes)), [str(name) for name in classes])
    made.colorbar(image, shrink=0.8)
    return made


def weights_over_time(
    steps: Sequence[float], weights: ArrayLike, names: Sequence[str], *, title: str = ""
) -> "Figure":
    """How much each source of knowledge counts as examples come in; one column per name."""
    made, axes = figure()
    columns = dict(zip(names, np.asarray(weights, float).T[:, None, :], strict=True))
    draw_curves(axes[0, 0], steps, columns, x_label="examples", y_label="weight", title=title)
    return made


def image_rows(rows: Mapping[str, ArrayLike], *, scale: float = 1.2) -> "Figure":
    """Grey images, a row of them per name, each image ``scale`` inches wide; levels 0 to 255."""
    stacks = {name: np.asarray(images) for name, images in rows.items()}
    n_columns = max(len(images) for images in stacks.values())
    _, height, width = next(iter(stacks.values())).shape
    made, axes = figure(n_columns, len(stacks))
    name_width = 0.08 * max(len(name) for name in stacks)
    made.set_size_inches(scale * n_columns + name_width, scale * height / width * len(stacks))
    made.get_layout_engine().set(w_pad=0.01, h_pad=0.01, wspace=0.0, hspace=0.0)
    for line, (name, images) in zip(axes, stacks.items(), strict=True):
        for panel in line[len(images) :]:
            panel.axis("off")
        for panel, image in zip(line, images, strict=False):
            panel.set(xticks=[], yticks=[])
            panel.imshow(image, cmap="gray", vmin=0, vmax=255)
        line[0].set_ylabel(name, rotation=0, ha="right", va="center", fontsize="small")
    return made
