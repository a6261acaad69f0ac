"""The notebook examples (``# %%``) run from top to bottom and print what they promise."""

import ast
import re
import runpy
import sys
import warnings
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.docs.photographs import fill

EXAMPLES = Path(__file__).parents[2] / "examples"
NEEDS = {"torch_eye": "torch"}
ARGUMENTS = {"few_shot_folder": ["photographs"]}


def printed(name, tmp_path, monkeypatch, capsys) -> str:
    if name in NEEDS and find_spec(NEEDS[name]) is None:
        pytest.skip(f"{name} needs {NEEDS[name]}, which is not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [name, *ARGUMENTS.get(name, [])])
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    return capsys.readouterr().out


def test_digits(tmp_path, monkeypatch, capsys):
    told = printed("digits_in_a_minute", tmp_path, monkeypatch, capsys)
    ours, theirs = map(float, re.search(r"0-9: everlearn (\S+)%, .* (\S+)%", told).groups())
    assert ours > 85 > theirs
    assert "and a slash, called 10: 10" in told


def test_robot(tmp_path, monkeypatch, capsys):
    told = printed("robot_objects", tmp_path, monkeypatch, capsys)
    right, asked = map(int, re.search(r"blue square: (\d+) of (\d+)", told).groups())
    assert right >= 0.8 * asked == 0.8 * 21
    assert "teach, 1 teaching (blue square), undone" in told


def test_a_folder_of_photographs(tmp_path, monkeypatch, capsys):
    fill(tmp_path)
    for name in ("butterfly", "cup", "pizza"):
        for part in ("photos", "test"):
            for picture in (tmp_path / part / name).iterdir():
                place = tmp_path / "photographs" / name / picture.name
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(picture.read_bytes())
    told = printed("few_shot_folder", tmp_path, monkeypatch, capsys)
    right, asked = map(int, re.search(r"(\d+) of (\d+) named right, 3 names", told).groups())
    answers = re.findall(r"is a (\w+) +(\w+)(\??) ", told)
    assert asked == len(answers) == 9
    # Called unknown counts as a mistake; the nearest name is right all the same, drawn or not.
    assert right == sum(name == said and not unknown for name, said, unknown in answers)
    assert sum(name == said for name, said, _ in answers) >= 8


def test_faces_are_repaired(tmp_path, monkeypatch, capsys):
    told = printed("repair_faces", tmp_path, monkeypatch, capsys)
    before, after = map(float, re.search(r"(\S+) as seen, (\S+) repaired", told).groups())
    assert after < before / 3


def test_the_inside_of_a_tree(tmp_path, monkeypatch, capsys):
    told = printed("inside_a_tree", tmp_path, monkeypatch, capsys)
    assert "depth 0: 300 examples" in told
    assert "a six is now 6" in told


def test_statistics_of_sites_add_up(tmp_path, monkeypatch, capsys):
    told = printed("federated_round", tmp_path, monkeypatch, capsys)
    gaps = [float(gap) for gap in re.findall(r": (\d(?:\.\d+)?e[-+]\d+)", told)]
    assert len(gaps) == 2
    assert max(gaps) < 1e-7


def test_a_person_is_forgotten(tmp_path, monkeypatch, capsys):
    told = printed("forget_a_person", tmp_path, monkeypatch, capsys)
    assert "before: Ann" in told
    assert "forgotten: 6 teachings of 1 name (Ann)" in told
    assert "the same probability: True" in told
    assert "every byte checked: 12 teachings and 12 log entries are as they were" in told


def test_a_torch_network_as_embedder(tmp_path, monkeypatch, capsys):
    told = printed("torch_eye", tmp_path, monkeypatch, capsys)
    assert float(re.search(r"saw: (\S+)%", told)[1]) > 80


@pytest.mark.slow
def test_the_tour_runs_and_its_outputs_are_cleared_in_git(tmp_path):
    nbformat = pytest.importorskip("nbformat", reason="nbclient is not installed")
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    notebook = nbformat.read(EXAMPLES / "tour.ipynb", as_version=4)
    nbformat.validate(notebook)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(not cell.outputs and cell.execution_count is None for cell in cells)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the kernel's own packages
        nbclient.NotebookClient(
            notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}
        ).execute()
    shown = [
        output["data"]["text/plain"]
        for cell in cells
        for output in cell.outputs
        if output.output_type == "execute_result"
    ]
    assert "{'flower': 3, 'temple': 1}" in shown
    assert shown.count("True") == 2
    answers = [ast.literal_eval(text) for text in shown if text.startswith("[(")]
    assert [best[0][0] for best in answers] == ["flower", "temple"]
