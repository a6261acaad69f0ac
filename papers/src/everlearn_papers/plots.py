"""Figures readable in black and white: lines differ in dashes and markers, not only in colour.

No function changes matplotlib's global state.
"""

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from everlearn.evaluation.plots import figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "accuracy_against_time",
    "draw_curves",
    "figure",
    "image_rows",
    "learning_curves",
    "one_legend",
    "weights_over_time",
]

# The first 35 curves all differ in dashes or marker.
LINES = ("-", "--", "-.", ":", (0, (7, 2, 1, 2, 1, 2)))
MARKS = ("o", "s", "^", "x", "D", "v", "P")
# Distinguishable with red-green colour blindness; none too light.
COLOURS = ("#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#7f7f7f")


def draw_curves(
    axes: "Axes",
    x: Sequence[float],
    curves: Mapping[str, ArrayLike],
    *,
    x_label: str,
    y_label: str,
    title: str = "",
) -> None:
    """Draw the mean over rows as a line and one standard deviation as a band, per name.

    A name has the same style in every panel of a figure.
    """
    drawn = [line.get_label() for panel in axes.figure.axes for line in panel.lines]
    names = list(dict.fromkeys([*drawn, *curves]))
    styles = dict(zip(names, zip(cycle(LINES), cycle(MARKS), cycle(COLOURS)), strict=False))
    for name, values in curves.items():
        dash, mark, colour = styles[name]
        runs = np.atleast_2d(np.asarray(values, float))
        if np.isnan(runs).all():
            continue
        mean = runs.mean(axis=0)
        # Hollow markers keep overlapping curves visible; at most twenty per curve.
        every = -(-runs.shape[1] // 20)
        axes.plot(
            x,
            mean,
            linestyle=dash,
            marker=mark,
            markersize=5,
            markerfacecolor="none",
            markevery=every,
            color=colour,
            label=name,
        )
        if len(runs) > 1:
            spread = runs.std(axis=0)
            axes.fill_between(x, mean - spread, mean + spread, color=colour, alpha=0.15, lw=0)
    axes.set(xlabel=x_label, ylabel=y_label, title=title)
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")


def one_legend(drawn: "Figure", axes: Any, *, n_columns: int = 5) -> None:
    """Replace the legends of all panels by one below the figure."""
    handles: dict[str, Any] = {}
    for panel in np.ravel(axes):
        for handle, name in zip(*panel.get_legend_handles_labels(), strict=True):
            handles.setdefault(name, handle)
        if panel.get_legend() is not None:
            panel.get_legend().remove()
    drawn.legend(
        handles.values(),
        handles.keys(),
        loc="outside lower center",
        ncols=min(n_columns, len(handles)),
        fontsize="small",
    )


def learning_curves(
    x: Sequence[float],
    curves: Mapping[str, ArrayLike],
    *,
    x_label: str = "examples learned",
    y_label: str = "accuracy",
    title: str = "",
) -> "Figure":
    """Figure of accuracy along a stream; an array of shape (seeds, checkpoints) per name."""
    made, axes = figure()
    draw_curves(axes[0, 0], x, curves, x_label=x_label, y_label=y_label, title=title)
    return made


def accuracy_against_time(
    points: Mapping[str, tuple[float, float]], *, x_label: str = "seconds", title: str = ""
) -> "Figure":
    """Figure with one point (seconds, accuracy) per name; the time axis is logarithmic."""
    made, axes = figure()
    # Labels alternate above and below the points, so that neighbours do not overlap.
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


def weights_over_time(
    steps: Sequence[float], weights: ArrayLike, names: Sequence[str], *, title: str = ""
) -> "Figure":
    """Figure of the weight of each source after every example; one column per name."""
    made, axes = figure()
    columns = dict(zip(names, np.asarray(weights, float).T[:, None, :], strict=True))
    draw_curves(axes[0, 0], steps, columns, x_label="examples", y_label="weight", title=title)
    return made


def image_rows(rows: Mapping[str, ArrayLike], *, scale: float = 1.2) -> "Figure":
    """Figure of grey images (0 to 255), one row per name; each image is ``scale`` inches wide."""
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
