"""Figures show the values they were given."""

import io

import numpy as np
import pytest
from everlearn_papers import plots
from PIL import Image


def test_learning_curves_show_mean_and_band():
    runs = np.array([[0.1, 0.5], [0.3, 0.7]])
    drawn = plots.learning_curves([10, 20], {"a": runs, "b": [0.2, 0.2]})
    first, second = drawn.axes[0].lines
    assert first.get_ydata() == pytest.approx([0.2, 0.6])
    assert first.get_linestyle() != second.get_linestyle()
    assert first.get_marker() != second.get_marker()
    (band,) = drawn.axes[0].collections
    assert band.get_paths()[0].get_extents().y1 == pytest.approx(0.7)


def test_accuracy_against_time_and_weights():
    drawn = plots.accuracy_against_time({"fast": (0.1, 0.5), "slow": (10.0, 0.9)})
    assert drawn.axes[0].get_xscale() == "log"
    assert [line.get_xdata()[0] for line in drawn.axes[0].lines] == [0.1, 10.0]
    drawn = plots.weights_over_time([1, 2, 3], [[0, 1], [0.5, 0.5], [1, 0]], ["old", "new"])
    assert drawn.axes[0].lines[0].get_ydata().tolist() == [0.0, 0.5, 1.0]


def test_rows_of_images_show_every_grey_level():
    rows = {"dark": np.full((3, 8, 10), 30), "light": np.full((2, 8, 10), 220)}
    drawn = plots.image_rows(rows, scale=1.0)
    stored = io.BytesIO()
    drawn.savefig(stored)
    pixels = np.asarray(Image.open(stored).convert("L"))
    height, width = pixels.shape
    names = [panel.get_ylabel() for panel in drawn.axes if panel.get_ylabel()]
    assert names == ["dark", "light"]
    across = slice(width // 3, None)  # beside the names
    upper, lower = pixels[: height // 2, across], pixels[height // 2 :, across]
    assert np.mean(upper == 30) > 0.8
    # The second row has an image less: where it would be is left white.
    assert 0.4 < np.mean(lower == 220) < 0.75
    assert np.all(lower[5:, -width // 10 :] == 255)


def test_a_name_has_the_same_style_in_every_panel():
    pytest.importorskip("matplotlib", reason="figures need matplotlib")
    _, axes = plots.figure(2)
    labels = {"x_label": "x", "y_label": "y"}
    plots.draw_curves(axes[0, 0], [1, 2], {"batch": [1, 2], "ours": [2, 3]}, **labels)
    plots.draw_curves(axes[0, 1], [1, 2], {"ours": [2, 3], "theirs": [1, 1]}, **labels)
    looks = [
        {line.get_label(): (line.get_color(), line.get_marker()) for line in panel.lines}
        for panel in axes[0]
    ]
    assert looks[0]["ours"] == looks[1]["ours"]
    assert len({*looks[0].values(), *looks[1].values()}) == 3
