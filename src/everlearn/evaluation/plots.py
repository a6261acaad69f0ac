"""Confusion matrices as figures, without changing matplotlib's global state."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from everlearn.errors import CannotWrite, MissingPackage

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# For more classes than this, names, or numbers, are omitted as unreadable.
MOST_NAMED_CLASSES = 100
MOST_NUMBERED_CLASSES = 25


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


def confusion_matrix(
    counts: ArrayLike,
    classes: Sequence[Any],
    *,
    answers: Sequence[Any] | None = None,
    title: str = "",
) -> "Figure":
    """Shares of each true class as shades, with counts in the cells of small tables.

    ``answers`` names the columns if they are not the classes, for instance with "unknown".
    """
    table = np.asarray(counts, float)
    columns = classes if answers is None else answers
    longest = max(len(classes), len(columns))
    side = min(max(4.2, 0.35 * longest + 1.5), 40.0)
    made, axes = figure(width=side + 0.3, height=side)
    totals = table.sum(axis=1, keepdims=True)
    shares = np.divide(table, totals, out=np.zeros_like(table), where=totals > 0)
    image = axes[0, 0].imshow(shares, cmap="Greys", vmin=0.0, vmax=1.0)
    axes[0, 0].set(xlabel="answer", ylabel="right class", title=title)
    if longest <= MOST_NAMED_CLASSES:
        axes[0, 0].set_xticks(range(len(columns)), _plain_words(columns), rotation=90)
        axes[0, 0].set_yticks(range(len(classes)), _plain_words(classes))
    if longest <= MOST_NUMBERED_CLASSES:
        for row, column in np.argwhere(table > 0).tolist():
            colour = "white" if shares[row, column] > 0.5 else "black"
            words = {"ha": "center", "va": "center", "fontsize": "small", "color": colour}
            axes[0, 0].text(column, row, f"{table[row, column]:g}", **words)
    made.colorbar(image, shrink=0.8)
    return made


def save_figure(figure: "Figure", path: str | os.PathLike[str]) -> None:
    """Write a figure to a file, whose ending says the format."""
    try:
        figure.savefig(os.fspath(path), dpi=120)
    except (OSError, ValueError) as error:
        raise CannotWrite(f"the plot {os.fspath(path)} cannot be written: {error}") from None


def _plain_words(names: Sequence[Any]) -> list[str]:
    """Names with dollar signs escaped, which would start a formula."""
    return [str(name).replace("$", r"\$") for name in names]
