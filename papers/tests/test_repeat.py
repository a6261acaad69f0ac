"""Seeds run in parallel, are kept on disk, and resume."""

import json

import numpy as np
import pytest
from everlearn_papers.repeat import repeat
from threadpoolctl import threadpool_info, threadpool_limits


def square(seed, offset=0, log=None):
    if log:
        with open(log, "a") as file:
            file.write(f"{seed}\n")
    if seed == 13:
        raise ArithmeticError("thirteen")
    return {"value": seed**2 + offset}


def test_parallel_equals_one_after_the_other(tmp_path):
    alone = repeat(square, range(3))
    together = repeat(square, range(3), jobs=2, folder=tmp_path)
    assert alone == together == [{"value": 0}, {"value": 1}, {"value": 4}]


def threads(seed):
    np.ones((2, 2)) @ np.ones((2, 2))
    return {"most": max(pool["num_threads"] for pool in threadpool_info())}


@pytest.mark.parametrize("jobs", [1, 2])
def test_every_experiment_computes_with_one_thread(jobs, monkeypatch):
    """The same sums in the same order, whatever the number of processes."""
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "2")
    with threadpool_limits(2):
        assert repeat(threads, range(2), jobs=jobs) == [{"most": 1}] * 2


def test_results_of_another_version_are_not_used(tmp_path):
    repeat(square, range(1), folder=tmp_path)
    path = tmp_path / "square-0.json"
    kept = json.loads(path.read_text())
    kept["result"] = {"value": -1}
    path.write_text(json.dumps(kept))
    assert repeat(square, range(1), folder=tmp_path) == [{"value": -1}]
    path.write_text(json.dumps(kept | {"version": "0.0.1"}))
    assert repeat(square, range(1), folder=tmp_path) == [{"value": 0}]


def test_an_interrupted_run_resumes(tmp_path):
    log = str(tmp_path / "log")
    repeat(square, range(2), settings={"log": log}, folder=tmp_path / "runs")
    (tmp_path / "runs" / "square-1.json").write_text("{ half a fi")
    done = []
    results = repeat(
        square,
        range(3),
        settings={"log": log},
        folder=tmp_path / "runs",
        progress=lambda: done.append(1),
    )
    assert [r["value"] for r in results] == [0, 1, 4]
    assert (tmp_path / "log").read_text().split() == ["0", "1", "1", "2"]
    assert len(done) == 3


def test_results_of_other_settings_are_not_used(tmp_path):
    repeat(square, range(1), settings={"offset": 1}, folder=tmp_path)
    assert repeat(square, range(1), settings={"offset": 2}, folder=tmp_path) == [{"value": 2}]
    assert json.loads((tmp_path / "square-0.json").read_text())["settings"] == {"offset": 2}


def test_a_failing_seed_does_not_lose_the_others(tmp_path):
    with pytest.raises(ArithmeticError, match="thirteen"):
        repeat(square, [1, 13, 2], folder=tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["square-1.json", "square-2.json"]
