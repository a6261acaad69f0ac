"""Tables in three forms."""

import io
import json

import numpy as np

from everlearn.evaluation import Table

ROWS = [{"learner": "a|b", "accuracy": 0.12345678}, {"learner": "c", "bytes": float("nan")}]


def test_a_table_as_markdown_csv_and_json():
    table = Table(ROWS)
    lines = table.to_markdown().splitlines()
    assert lines[0] == "| learner | accuracy | bytes |"
    assert lines[2] == r"| a\|b | 0.1235 |  |"
    assert lines[3].endswith("| – |")
    assert json.loads(table.to_json())[1] == {"learner": "c", "bytes": None}
    frame = table.to_pandas()
    assert list(frame.columns) == ["learner", "accuracy", "bytes"]
    assert frame["accuracy"][0] == 0.12345678


def test_a_table_as_values_and_as_html():
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
