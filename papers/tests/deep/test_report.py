"""The report on networks trained here agrees with its results."""

import json
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the rivals need torch: pip install 'everlearn[torch]'")

from everlearn_papers.deep.race import CONTENDERS, epochs_of
from everlearn_papers.deep.report import text
from everlearn_papers.deep.streams import RATES
from everlearn_papers.deep.tables import (
    RIVALS,
    best_rate,
    best_whole,
    courses,
    per_cent,
    table_of_costs,
    tried,
    whole_runs,
)
from everlearn_papers.deep.turntable_tables import ORDERINGS, runs_of, table_of_told
from everlearn_papers.slda.last_layer import STREAM_RATES

FOLDER = Path(__file__).parents[3] / "docs" / "papers" / "deep"
RESULTS = json.loads((FOLDER / "results.json").read_text("utf-8"))


def test_report_is_written_from_its_results():
    assert (FOLDER / "report.md").read_text("utf-8") == text(RESULTS)


def test_learning_rates_are_chosen_on_held_out_pictures_not_on_the_test_set():
    found = {
        "learner:ExStream@0.001": {"held_out": [0.9, 0.1], "accuracies": [0.9]},
        "learner:ExStream@0.01": {"held_out": [0.7, 0.5], "accuracies": [0.1]},
        "learner:ExStream@0.1": {"error": "stopped"},
    }
    assert best_rate(found, "ExStream") is found["learner:ExStream@0.01"]


def test_every_rival_states_its_epochs_and_the_best_had_sixty():
    found = RESULTS["found"]
    assert all(found[f"rival:{name}"]["epochs"] for name in RIVALS)
    assert found["rival:iCaRL"]["epochs"] == found["rival:End-to-End"]["epochs"] == 60


def test_end_to_end_says_how_many_epochs_it_balanced_for():
    """Half as many as a task has, as published (30 after 40); the earlier run had a third."""
    found = RESULTS["found"]
    report = (FOLDER / "report.md").read_text("utf-8")
    for table, job, epochs in (
        ("| End-to-End | 77.2 |", "rival:End-to-End", "60 + 30"),
        ("| End-to-End | 77.2 |", "rival:End-to-End@10", "10 + 3"),
        ("| End-to-End | 10 |", "choice:End-to-End", "60 + 30"),
    ):
        assert f"{found[job]['epochs']} + {found[job]['balancing epochs']}" == epochs
        rows = [line for line in report.splitlines() if line.startswith(table)]
        assert any(f"| {epochs} |" in row for row in rows)
    new = epochs_of(CONTENDERS["End-to-End"], 60)
    assert new == {"epochs": 60, "balancing epochs": 30}
    assert epochs_of(CONTENDERS["iCaRL"], 60) == {"epochs": 60}


def test_times_of_section_4_5_say_how_they_were_taken():
    """Times of iCaRL by those of SLDA, alone on the device; others are marked."""
    found = RESULTS["found"]
    rows = {row[""]: row for row in table_of_costs(found).rows}
    for name, row in rows.items():
        finished = "seconds" in found.get(f"cost:{name}", {})
        assert row["timed"] == ("alone" if finished else "beside other jobs")
    theirs = sum(found["cost:iCaRL"]["seconds"])
    for column, name in (
        ("times SLDA's, in batches", "SLDA (plastic)"),
        ("times SLDA's, one at a time", "SLDA (plastic), one at a time"),
    ):
        ours = sum(found[f"cost:{name}"]["seconds"])
        assert float(rows["iCaRL"][column]) == pytest.approx(theirs / ours, rel=5e-3)
    assert rows["iCaRL"]["epochs a task"] == "60"


def test_rows_of_table_2_share_one_reference():
    """SLDA's Ω computed here: its accuracy divided by that of the whole network."""
    found = RESULTS["found"]
    shares = []
    for run in runs_of(found, "class iid", "beside"):
        ours = run["accuracies"]["SLDA (plastic)"]
        theirs = found[f"offline:{run['draw']}"]["accuracies"]
        shares += [5 * a / (k + 1) / b for k, (a, b) in enumerate(zip(ours, theirs, strict=True))]
    row = next(r for r in table_of_told(found).rows if r[""] == "SLDA (plastic), class iid")
    assert float(row["Ω"].split()[0]) == pytest.approx(sum(shares) / len(shares), abs=6e-4)


def test_the_order_of_the_paper_holds_class_by_class():
    """Plastic is at least as good as fixed, then come ExStream and fine-tuning."""
    rows = courses(RESULTS["found"])
    names = ("SLDA (plastic)", "SLDA (fixed)", "ExStream", "Fine-tuning (layer)")
    ends = [rows[name]["accuracies"][-1] for name in names]
    assert ends == sorted(ends, reverse=True)


def test_frozen_last_stages_with_random_features_beat_every_rival_after_every_task():
    ours = RESULTS["found"]["staged:"]["RLSC, 10,000 wide, 3"]["accuracies"]
    for rival in RIVALS:
        theirs = RESULTS["found"][f"rival:{rival}"]["accuracies"]
        assert all(our > their for our, their in zip(ours, theirs, strict=True)), rival


def test_table_2_has_ten_draws_and_the_settings_of_every_rival():
    report = (FOLDER / "report.md").read_text("utf-8")
    for name in CONTENDERS:
        row = next(r for r in table_of_told(RESULTS["found"]).rows if r[""] == name)
        assert row["draws"] == 10
        assert row["rate / regularization; told"] != "–"
        assert f"| {name} | untold |" in report
        assert f"| {name} | told |" in report


def test_fine_tunings_rate_is_inside_its_grid():
    """A rate of 0 is the natural end; for any other both neighbours were tried."""
    found = RESULTS["found"]
    layer = best_rate(found, "Fine-tuning (layer)")["rates"][1]
    rates = [(best_whole(found)["rate"], {run["rate"] for run in whole_runs(found)})]
    rates.append((layer, {pair[1] for pair in RATES["Fine-tuning (layer)"]}))
    for ordering in ORDERINGS:
        run = found[f"whole:{ordering}"]
        rates.append((run["rate"], {float(rate) for rate in run["tried"]}))
        for run in runs_of(found, ordering):
            for name in ("Fine-Tuning", "ExStream"):
                least, most, stopped = run["tried"][name]
                assert least < run["rates"][name][0] < most
                assert not stopped
    for rate, grid in rates:
        assert rate == 0.0 or min(grid) < rate < max(grid)


def test_the_report_marks_stream_rates_at_the_end_of_their_grid():
    chosen = [
        run["rates"]["Fine-Tuning"][1]
        for ordering in ORDERINGS
        for run in runs_of(RESULTS["found"], ordering)
    ]
    at_end = chosen.count(max(STREAM_RATES))
    report = (FOLDER / "report.md").read_text("utf-8")
    assert f"In {at_end} of {len(chosen)} draws fine-tuning took the largest rate" in report


@pytest.mark.parametrize(
    ("values", "best", "expected"),
    [
        ({"0.1 1": 0.5, "1 1": 0.6}, (1.0, 1.0), "rate"),
        ({"0.1 1": 0.6, "1 1": 0.6}, (1.0, 1.0), "–"),
        ({"0.1 1": 0.5, "1 1": 0.6, "10 1": 0.4}, (1.0, 1.0), "–"),
        ({"0.1 1": 0.5, "1 1": 0.6, "10 1": 0.4, "1 2": 0.7}, (1.0, 2.0), "regularization"),
    ],
)
def test_the_end_of_a_search_is_reported(values, best, expected):
    """It is better than its only neighbour; beyond equal values there is no gain."""
    choice = {"tried": values, "learning_rate": best[0], "regularization": best[1]}
    assert tried(choice)["best at an end"] == expected


def test_headline_numbers_of_readme_and_guide_are_in_this_report():
    """Our top-1 and top-5 accuracy beside those of iCaRL, wherever they are quoted."""
    ours = RESULTS["found"]["staged:"]["RLSC, 10,000 wide, 3"]
    best = max((RESULTS["found"][f"rival:{name}"] for name in RIVALS), key=lambda r: r["top5"][-1])
    expected = [per_cent(run[key][-1]) for key in ("accuracies", "top5") for run in (ours, best)]
    root = FOLDER.parents[2]
    readme = (root / "README.md").read_text("utf-8")
    (line,) = [line for line in readme.splitlines() if "iCaRL" in line]
    guide = (root / "docs" / "deep.md").read_text("utf-8")
    for figure in expected:
        assert figure in line
        assert figure in guide
    assert best is RESULTS["found"]["rival:iCaRL"]
