"""Paths in tables keep their ends."""

import io

import pytest
from rich.console import Console
from rich.table import Table

from everlearn.cli.output import print_table
from everlearn.cli.path_cell import PathCell, shortened


@pytest.mark.parametrize("width", [1, 2, 5, 20, 40])
def test_a_long_path_keeps_its_end_within_the_width(width):
    paths = [f"/home/somebody/pictures/2024/holiday in the hills/IMG_{n}.jpg" for n in (1, 2)]
    one, other = (shortened(path, width) for path in paths)
    assert len(one) == len(other) == width
    if width > 12:
        assert one.startswith("/home/")
        assert one.endswith("IMG_1.jpg")
        assert one != other
    assert shortened("cup.jpg", 7) == "cup.jpg"


@pytest.mark.parametrize("column", ["file", "source"])
def test_the_columns_of_paths_are_shortened_in_the_middle(monkeypatch, capsys, column):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "60")
    print_table([column, "answer"], [[f"/home/{'deep/' * 30}IMG_{n}.jpg", "cup"] for n in (1, 2)])
    shown = capsys.readouterr().out
    assert "IMG_1.jpg" in shown
    assert "IMG_2.jpg" in shown
    assert "/home/" in shown


def test_a_table_shows_the_ends_of_long_paths():
    out = io.StringIO()
    table = Table("file", "answer")
    for number in (1, 2):
        table.add_row(PathCell(f"/home/{'deep/' * 30}IMG_{number}.jpg"), "Northern Cardinal 97%")
    Console(file=out, width=80).print(table)
    lines = [line for line in out.getvalue().splitlines() if "97%" in line]
    assert ["IMG_1.jpg" in lines[0], "IMG_2.jpg" in lines[1]] == [True, True]
    assert all("…" in line and len(line) <= 80 for line in lines)
