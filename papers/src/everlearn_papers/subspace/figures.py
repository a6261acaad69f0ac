"""Drawing functions for Fig. 1 and Fig. 2 of Skočaj and Leonardis (2002)."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everlearn_papers import plots
from everlearn_papers.repeat import Result
from everlearn_papers.subspace.coil import ORDERINGS, SHOWN_COMPONENTS, above_batch

N_OBJECTS = 20


def draw_points(run: Result) -> Any:
    """Fig. 1: (a) the axis as points are added; (b) with five of them changed."""
    drawn, axes = plots.figure(2, height=3.8)
    clean, seen, repaired = (np.array(run[name]) for name in ("clean", "seen", "repaired"))
    left, right = axes[0]
    left.plot(*clean.T, "k.", markersize=4)
    for point, mean, axis in run["steps"]:
        _draw_axis(left, [mean, axis], clean, color="0.6", lw=1)
        left.plot(*mean, "s", color="0.4", markersize=5, fillstyle="none")
        left.plot(*point, "kx", markersize=8)
    _draw_axis(left, run["axes"]["incremental"], clean, color="k", label="incremental, at the end")
    _draw_axis(left, run["best"], clean, color="#d55e00", ls="--", lw=2.5, label="batch")
    right.plot(*seen.T, "k.", markersize=4)
    moved = (repaired != seen).any(axis=1)
    right.plot(*repaired[moved].T, "o", color="k", fillstyle="none", label="as replaced")
    for name, style in (("incremental", "-."), ("robust incremental", "-")):
        place = run["axes"][f"{name}, points changed"]
        _draw_axis(right, place, clean, color="k", ls=style, label=name)
        right.plot(*place[0], "ks", markersize=6, fillstyle="none")
    _draw_axis(right, run["best"], clean, color="#d55e00", ls="--", lw=2.5, label="optimal")
    for panel, title in ((left, "(a) incremental"), (right, "(b) five points changed")):
        panel.set_title(title)
        panel.legend(fontsize="small", loc="upper left")
    return drawn


def _draw_axis(panel: Any, place: list[list[float]], points: NDArray[Any], **style: Any) -> None:
    """Draw an axis, given by origin and direction, over the extent of the points."""
    mean, axis = place
    along = (points - mean) @ np.array(axis)
    ends = np.array(mean) + np.outer([along.min(), along.max()], axis)
    panel.plot(*ends.T, **style)


def draw_errors(components: list[int], runs: Mapping[str, list[Result]]) -> Any:
    """Fig. 2(b), and the same relative to the error of batch PCA."""
    drawn, axes = plots.figure(3, width=4.2)
    levels = {"batch": [runs["seq"][0]["sums"]["batch"]]}
    above: dict[int, dict[str, list[NDArray[Any]]]] = {0: {}, 8: {}}
    for kind in ORDERINGS:
        for source in ("A", "X"):
            name = f"inc{source}{kind}"
            levels[name] = [run["sums"][f"inc{source}, guard=0"] for run in runs[kind]]
            for guard, curves in above.items():
                curves[name] = [
                    above_batch(run, f"inc{source}, guard={guard}") for run in runs[kind]
                ]
    plots.draw_curves(
        axes[0, 0], components, levels, x_label="components", y_label="MSRE", title="(b)"
    )
    highest = max(float(np.max(values)) for values in above[0].values())
    for panel, guard, title in ((axes[0, 1], 0, "as published"), (axes[0, 2], 8, "guard=8")):
        plots.draw_curves(
            panel,
            components,
            above[guard],
            x_label="components",
            y_label="% above batch",
            title=title,
        )
        panel.set_ylim(0.0, 1.05 * highest)
    plots.one_legend(drawn, axes)
    return drawn


def draw_profiles(runs: Mapping[str, list[Result]]) -> Any:
    """Fig. 2(c): mean error of the images of each object, all curves in one panel."""
    drawn, axes = plots.figure(width=7.0)
    curves = {"batch": _by_object(runs["seq"][0]["profiles"]["batch"])}
    for kind in ORDERINGS:
        for source in ("X", "A"):
            profile = runs[kind][0]["profiles"][f"inc{source}, guard=0"]
            curves[f"inc{source}{kind}"] = _by_object(profile)
    plots.draw_curves(
        axes[0, 0],
        range(1, N_OBJECTS + 1),
        curves,
        x_label="object",
        y_label="MSRE",
        title=f"(c) {SHOWN_COMPONENTS} components, mean over the views of each object",
    )
    plots.one_legend(drawn, axes)
    return drawn


def _by_object(profile: list[float]) -> NDArray[Any]:
    means: NDArray[Any] = np.array(profile).reshape(N_OBJECTS, -1).mean(axis=1)
    return means
