"""The report on networks trained here says what its results say, and no more."""

import json
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the rivals need torch: pip install 'everlearn[torch]'")

from everlearn_papers.deep.report import text
from everlearn_papers.deep.tables import RIVALS, best_rate, courses, runs_of, table_of_told

FOLDER = Path(__file__).parents[3] / "docs" / "papers" / "deep"
RESULTS = json.loads((FOLDER / "results.json").read_text("utf-8"))


def test_report_is_written_from_its_results():
    assert (FOLDER / "report.md").read_text("utf-8") == text(RESULTS)


def test_a_rate_is_chosen_by_held_out_pictures_and_not_by_the_test():
    found = {
        "learner:ExStream@0.001": {"held_out": [0.9, 0.1], "accuracies": [0.9]},
        "learner:ExStream@0.01": {"held_out": [0.7, 0.5], "accuracies": [0.1]},
        "learner:ExStream@0.1": {"error": "stopped"},
    }
    assert best_rate(found, "ExStream") is found["learner:ExStream@0.01"]


def test_every_rival_says_how_many_epochs_it_had_and_the_best_had_sixty():
    found = RESULTS["found"]
    assert all(found[f"rival:{name}"]["epochs"] for name in RIVALS)
    assert found["rival:iCaRL"]["epochs"] == found["rival:End-to-End"]["epochs"] == 60


def test_rows_of_table_2_have_one_reference():
    """SLDA's Ω worked out by hand: its accuracy on the objects so far by the whole network's."""
    found = RESULTS["found"]
    shares = []
    for run in runs_of(found, "class iid"):
        ours = run["accuracies"]["SLDA (plastic)"]
        theirs = found[f"offline:{run['draw']}"]["accuracies"]
        shares += [5 * a / (k + 1) / b for k, (a, b) in enumerate(zip(ours, theirs, strict=True))]
    row = next(r for r in table_of_told(found).rows if r[""] == "SLDA (plastic), class iid")
    assert float(row["Ω"]) == pytest.approx(sum(shares) / len(shares), abs=6e-4)


def test_the_papers_order_holds_class_by_class():
    """Plastic at least as good as fixed, then ExStream, then fine-tuning."""
    rows = courses(RESULTS["found"])
    names = ("SLDA (plastic)", "SLDA (fixed)", "ExStream", "Fine-tuning (layer)")
    ends = [rows[name]["accuracies"][-1] for name in names]
    assert ends == sorted(ends, reverse=True)


def test_a_frozen_network_read_deeper_and_wider_is_above_every_rival_after_every_task():
    ours = RESULTS["found"]["staged:"]["RLSC, 10,000 wide, 3"]["accuracies"]
    for rival in RIVALS:
        theirs = RESULTS["found"][f"rival:{rival}"]["accuracies"]
        assert all(our > their for our, their in zip(ours, theirs, strict=True)), rival
