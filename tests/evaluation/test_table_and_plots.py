"""Tables in three forms, and figures that show what they were given."""

import io
import json

import numpy as np
import pytest
from PIL import Image

from everlearn.evaluation import Table, plots

ROWS = [{"learner": "a|b", "accuracy": 0.12345678}, {"learner": "c", "bytes": float("nan")}]


def test_a_table_in_three_forms():
    table = Table(ROWS)
    lines = table.to_markdown().splitlines()
    assert lines[0] == "| learner | accuracy | bytes |"
    assert lines[2] == r"| a\|b | 0.1235 |  |"
    assert lines[3].endswith("| – |")
    assert json.loads(table.to_json())[1] == {"learner": "c", "bytes": None}
    frame = table.to_pandas()
    assert list(frame.columns) == ["learner", "accuracy", "bytes"]
    assert frame["accuracy"][0] == 0.12345678


def test_a_table_as_values_and_on_a_page():
    import csv

    table = Table([*ROWS, {"learner": "d, e", "accuracy": np.float32(0.5)}])
    rows = list(csv.DictReader(io.StringIO(table.to_csv())))
    assert rows[0] == {"learner": "a|b", "accuracy": "0.12345678", "bytes": ""}
    assert rows[2]["learner"] == "d, e"
    assert repr(table) == table.to_markdown()
    assert "<td>c</td>" in table._repr_html_()
    assert "<script>" not in Table([{"name": "<script>"}])._repr_html_()


def test_a_table_of_numpy_numbers_is_json():
    table = Table()
    table.add(n=np.int64(3), x=np.float32(0.5))
    assert json.loads(table.to_json()) == [{"n": 3, "x": 0.5}]


def test_learning_curves_show_mean_and_band():
    runs = np.array([[0.1, 0.5], [0.3, 0.7]])
    drawn = plots.learning_curves([10, 20], {"a": runs, "b": [0.2, 0.2]})
    first, second = drawn.axes[0].lines
    assert first.get_ydata() == pytest.approx([0.2, 0.6])
    assert first.get_linestyle() != second.get_linestyle()
    assert first.get_marker() != second.get_marker()
    (band,) = drawn.axes[0].collections
    assert band.get_paths()[0].get_extents().y1 == pytest.approx(0.7)


def test_confusion_is_drawn_as_shares():
    drawn = plots.confusion_matrix([[3, 1], [0, 0]], ["a", "b"])
    np.testing.assert_allclose(drawn.axes[0].images[0].get_array(), [[0.75, 0.25], [0, 0]])


def test_accuracy_against_time_and_weights():
    drawn = plots.accuracy_against_time({"fast": (0.1, 0.5), "slow": (10.0, 0.9)})
    assert drawn.axes[0].get_xscale() == "log"
    assert [line.get_xdata()[0] for line in drawn.axes[0].lines] == [0.1, 10.0]
    drawn = plots.weights_over_time([1, 2, 3], [[0, 1], [0.5, 0.5], [1, 0]], ["old", "new"])
    assert drawn.axes[0].lines[0].get_ydata().tolist() == [0.0, 0.5, 1.0]


def test_rows_of_images_show_every_level_in_its_place():
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


def test_a_name_looks_the_same_in_every_panel_of_a_figure():
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
