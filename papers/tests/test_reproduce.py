"""Re-running a paper: reports are merged, progress counts experiments, a kill loses nothing."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path

import pytest
from everlearn_papers.errors import OtherResults
from everlearn_papers.repeat import VERSION
from everlearn_papers.report import Section, Watch
from everlearn_papers.reproduce import PAPERS, long_parts, parts, reproduce

from everlearn.errors import MissingData

from . import tiny_paper

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    monkeypatch.setitem(PAPERS, "tiny", tiny_paper.__name__)


@pytest.fixture
def out(tmp_path):
    (tmp_path / "data").touch()
    return tmp_path / "out"


def results(out):
    return json.loads((out / "results.json").read_text())


def logged(out):
    return sorted(out.with_name("out.log").read_text().split())


class TestSettings:
    def test_a_report_contains_the_settings_of_each_experiment(self, out):
        report = reproduce("tiny", only="fig1", seeds=2, out=out).read_text()
        assert "* `times`: seeds 2, factor 1\n" in report
        assert results(out)["parts"]["fig1"]["settings"] == {"times": {"seeds": [2], "factor": [1]}}

    def test_settings_of_seeds_found_on_disk_are_in_the_report_too(self, out):
        reproduce("tiny", only="table1", seeds=2, out=out)
        again = reproduce("tiny", only="table1", seeds=3, out=out).read_text()
        assert "* `times`: seeds 3, factor 10," in again

    def test_settings_that_every_run_shares_are_in_the_report(self, out, monkeypatch):
        monkeypatch.setattr(tiny_paper, "SETTINGS", {"rates": [0.1, 1.0]}, raising=False)
        report = reproduce("tiny", only="fig1", out=out).read_text()
        assert "* `times`: seeds 3, factor 1, rates (0.1 1)\n" in report

    def test_different_values_of_a_setting_are_listed_separately(self):
        watch = Watch(None)
        watch.begin("part", 1, 1)
        for features, rates in (("all", [0.1, 1.0]), ("few", [0.1, 1.0])):
            watch.runs("measure", 2, {"features": features, "rates": rates})
        expected = {"seeds": [2], "features": ["all", "few"], "rates": [[0.1, 1.0]]}
        assert watch.settings == {"measure": expected}


class TestUnion:
    def test_one_part_keeps_the_others(self, out):
        reproduce("tiny", seeds=2, out=out)
        before = results(out)["parts"]
        report = reproduce("tiny", only="table1", seeds=3, out=out).read_text()
        after = results(out)["parts"]
        assert list(after) == ["table1", "fig1", "table2"]
        assert after["fig1"] == before["fig1"]
        assert [row["measured"] for row in after["table1"]["rows"]] == [10, 20, 30]
        assert "`everlearn reproduce tiny --only table1 --seeds 3`" in report
        assert report.count("`everlearn reproduce tiny --seeds 2`") == 2
        assert "Not made yet" not in report

    def test_parts_have_the_order_of_the_paper_whatever_was_made_first(self, out):
        reproduce("tiny", only="table2", out=out)
        report = reproduce("tiny", only="table1", out=out).read_text()
        assert report.index("## Table 1") < report.index("## Table 2")
        assert "Not made yet: fig1." in report
        report = reproduce("tiny", only="fig1", out=out).read_text()
        assert report.index("Table 1") < report.index("Fig. 1") < report.index("Table 2")
        assert "![Fig. 1: a line](fig1-b.png)" in report
        assert "Not made yet" not in report

    def test_a_kept_part_is_unchanged(self, out):
        def second(text):
            return text[text.index("## Table 2") :]

        first = reproduce("tiny", only="table2", out=out).read_text()
        then = reproduce("tiny", only="table1", out=out).read_text()
        assert second(first) == second(then)
        assert "| 1.5 | – |" in then

    def test_a_failing_part_does_not_lose_the_others(self, tmp_path):
        with pytest.raises(MissingData, match=r"tiny, table2: data is missing"):
            reproduce("tiny", out=tmp_path / "out")
        assert list(results(tmp_path / "out")["parts"]) == ["table1", "fig1"]
        (tmp_path / "data").touch()
        reproduce("tiny", only="table2", out=tmp_path / "out")
        assert list(results(tmp_path / "out")["parts"]) == ["table1", "fig1", "table2"]


class TestQuickAndFull:
    def test_a_quick_run_does_not_touch_a_full_one(self, out):
        reproduce("tiny", out=out)
        before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
        with pytest.raises(OtherResults, match=r"holds a full run.*--out"):
            reproduce("tiny", only="table1", quick=True, out=out)
        assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before

    def test_a_full_run_puts_quick_parts_aside(self, out):
        reproduce("tiny", quick=True, out=out)
        assert results(out)["quick"] is True
        assert (out / "fig1-b.png").exists()
        report = reproduce("tiny", only="table1", out=out).read_text()
        assert list(results(out)["parts"]) == ["table1"]
        assert results(out)["quick"] is False
        assert "Quick run" not in report
        assert "Not made yet: fig1, table2." in report
        assert list(out.glob("*.png")) == []

    def test_a_quick_run_draws_no_conclusions(self, out):
        assert "It grows." not in reproduce("tiny", only="table1", quick=True, out=out).read_text()
        assert "First. It grows." in reproduce("tiny", only="table1", out=out).read_text()

    def test_quick_and_full_runs_have_separate_seeds(self, out):
        reproduce("tiny", only="table1", quick=True, seeds=4, out=out)
        reproduce("tiny", only="table1", seeds=4, out=out)
        assert [row["measured"] for row in results(out)["parts"]["table1"]["rows"]] == [
            10,
            20,
            30,
            40,
        ]

    def test_another_paper_or_file_is_not_replaced(self, out, monkeypatch):
        reproduce("tiny", only="table1", out=out)
        monkeypatch.setattr(tiny_paper, "TITLE", "Another paper")
        with pytest.raises(OtherResults, match=r"holds another paper: Tiny"):
            reproduce("tiny", out=out)
        (out / "results.json").write_text("[1, 2]")
        with pytest.raises(OtherResults, match="is not a file of results"):
            reproduce("tiny", out=out)

    def test_results_of_an_earlier_version_are_kept_or_named(self, out):
        """Before reports were unions, results.json had no texts to write a report from."""
        reproduce("tiny", out=out)
        old = results(out)
        for record in old["parts"].values():
            del record["text"], record["command"]
        (out / "results.json").write_text(json.dumps(old))
        with pytest.raises(OtherResults, match=r"earlier version.*fig1, table2 cannot be kept"):
            reproduce("tiny", only="table1", out=out)
        assert results(out) == old
        reproduce("tiny", out=out)
        assert all("text" in record for record in results(out)["parts"].values())


class TestLongParts:
    @pytest.fixture(autouse=True)
    def long(self, monkeypatch):
        monkeypatch.setattr(tiny_paper, "LONG", ("fig1", "table2"), raising=False)

    def test_long_parts_are_left_out_and_the_report_says_so(self, out):
        report = reproduce("tiny", out=out).read_text()
        assert list(results(out)["parts"]) == ["table1"]
        assert "Not made yet" not in report
        said = "Left out, because they take long: fig1, table2; `--long` makes them."
        assert report.rstrip().endswith(said)

    def test_long_parts_are_made_if_requested(self, out):
        report = reproduce("tiny", only="fig1", out=out).read_text()
        assert list(results(out)["parts"]) == ["fig1"]
        assert "Not made yet: table1." in report
        assert "take long: table2;" in report
        report = reproduce("tiny", long=True, out=out).read_text()
        assert list(results(out)["parts"]) == ["table1", "fig1", "table2"]
        assert report.count("`everlearn reproduce tiny --long`") == 3
        assert "take long" not in report

    def test_long_parts_made_before_are_kept(self, out):
        reproduce("tiny", only="fig1", out=out)
        report = reproduce("tiny", out=out).read_text()
        assert list(results(out)["parts"]) == ["table1", "fig1"]
        assert "take long: table2;" in report

    def test_a_quick_run_makes_all(self, out):
        reproduce("tiny", quick=True, out=out)
        assert list(results(out)["parts"]) == ["table1", "fig1", "table2"]


class TestProcessorTime:
    """Two experiments of a quarter of a second each, by the processor's own clock."""

    @pytest.fixture(autouse=True)
    def busy(self, monkeypatch):
        monkeypatch.setitem(tiny_paper.PARTS, "busy", tiny_paper.busy_part)
        monkeypatch.setitem(tiny_paper.PARTS, "idle", lambda _: Section("Idle", "none", "None."))

    @pytest.mark.parametrize("jobs", [1, 2])
    def test_a_part_has_the_time_of_itself_and_its_processes(self, out, jobs):
        report = reproduce("tiny", only="busy", out=out, jobs=jobs).read_text()
        took = results(out)["parts"]["busy"]["seconds"]
        assert took >= 0.5
        assert f"--only busy` (everlearn {VERSION}), took {took:.0f} s of processor time." in report

    def test_the_time_of_a_part_excludes_other_parts(self, out):
        reproduce("tiny", out=out)
        assert results(out)["parts"]["idle"]["seconds"] < 0.5

    def test_experiments_found_on_disk_count(self, out):
        reproduce("tiny", only="busy", out=out)
        kept = out / "runs" / "full" / "busy" / "busy-0.json"
        kept.write_text(json.dumps(json.loads(kept.read_text()) | {"seconds": 7200}))
        report = reproduce("tiny", only="busy", out=out).read_text()
        assert 7200 < results(out)["parts"]["busy"]["seconds"] < 7210
        assert "took 120.0 min of processor time." in report

    def test_experiments_that_a_part_uses_twice_count_once(self, out, monkeypatch):
        def twice(setting):
            tiny_paper.busy_part(setting)
            return tiny_paper.busy_part(setting)

        reproduce("tiny", only="busy", out=out)
        kept = out / "runs" / "full" / "busy" / "busy-0.json"
        kept.write_text(json.dumps(json.loads(kept.read_text()) | {"seconds": 7200}))
        monkeypatch.setitem(tiny_paper.PARTS, "busy", twice)
        reproduce("tiny", only="busy", out=out)
        assert 7200 < results(out)["parts"]["busy"]["seconds"] < 7210

    def test_nothing_is_reported_if_it_was_not_measured(self, out):
        reproduce("tiny", only="busy", out=out)
        kept = out / "runs" / "full" / "busy" / "busy-0.json"
        old = json.loads(kept.read_text())
        del old["seconds"]
        kept.write_text(json.dumps(old))
        report = reproduce("tiny", only="busy", out=out).read_text()
        assert results(out)["parts"]["busy"]["seconds"] is None
        assert "took" not in report


@pytest.mark.parametrize("jobs", [1, 2])
def test_progress_names_the_part_and_counts_experiments(out, jobs):
    said = []
    reproduce("tiny", out=out, jobs=jobs, progress=said.append)
    assert [now.part for now in said if now.known == 0] == ["table1", "fig1", "table2"]
    assert all(now.n_parts == 3 for now in said)
    first = [(now.done, now.known) for now in said if now.part == "table1"]
    assert first == [(0, 0), (0, 4), (1, 4), (2, 4), (3, 4), (4, 4)]
    assert [now.number for now in said if now.part == "fig1"] == [2] * 5


def test_results_are_reused_only_for_equal_settings_and_version(out, monkeypatch):
    reproduce("tiny", only="table1", seeds=2, out=out)
    assert logged(out) == ["0", "1"]
    reproduce("tiny", only="table1", seeds=3, out=out)
    assert logged(out) == ["0", "1", "2"]
    reproduce("tiny", only="table1", seeds=3, out=out)
    assert logged(out) == ["0", "1", "2"]
    monkeypatch.setattr(sys.modules["everlearn_papers.repeat"], "VERSION", "9.9")
    reproduce("tiny", only="table1", seeds=1, out=out)
    assert logged(out) == ["0", "0", "1", "2"]
    kept = json.loads((out / "runs" / "full" / "first" / "times-0.json").read_text())
    assert kept["version"] == "9.9"
    kept["settings"]["factor"] = 77
    kept["result"]["value"] = -1
    (out / "runs" / "full" / "first" / "times-0.json").write_text(json.dumps(kept))
    reproduce("tiny", only="table1", seeds=1, out=out)
    assert results(out)["parts"]["table1"]["rows"] == [{"seed": 0, "measured": 10}]


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_killed_run_resumes(out, jobs):
    block, reached = out.with_name("out.block"), out.with_name("out.block.reached")
    block.touch()
    runs = out / "runs" / "full" / "first"
    with subprocess.Popen(
        [sys.executable, "-m", "papers.tests.tiny_paper", str(out), str(jobs)],
        cwd=ROOT,
        stderr=subprocess.DEVNULL,
    ) as killed:
        wanted = ["times-0.json", "times-1.json"] + (["times-3.json"] if jobs == 2 else [])
        wait_until(lambda: reached.exists() and all((runs / name).exists() for name in wanted))
        killed.kill()
    assert sorted(path.name for path in runs.iterdir()) == wanted
    kept = {path: path.stat().st_mtime_ns for path in runs.iterdir()}
    block.unlink()
    reproduce("tiny", only="table1", out=out, jobs=jobs)
    assert [row["measured"] for row in results(out)["parts"]["table1"]["rows"]] == [10, 20, 30, 40]
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    # Seed 2 was begun twice, and with one process seed 3 was not begun before.
    assert logged(out) == ["0", "1", "2", "2", "3"]


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")
def test_a_killed_run_leaves_no_worker_behind(out):
    block, reached = out.with_name("out.block"), out.with_name("out.block.reached")
    block.touch()
    mark = {"TINY_MARK": str(out)}
    with subprocess.Popen(
        [sys.executable, "-m", "papers.tests.tiny_paper", str(out), "2"],
        cwd=ROOT,
        stderr=subprocess.DEVNULL,
        env=os.environ | mark,
    ) as killed:
        wait_until(reached.exists)
        assert len(marked(str(out))) >= 3  # the run and its two workers
        killed.kill()
    wait_until(lambda: not marked(str(out)))


@contextmanager
def interrupted(out, disposition):
    """A run whose process group was interrupted with hundreds of seeds left."""
    block, reached = out.with_name("out.block"), out.with_name("out.block.reached")
    block.touch()
    with subprocess.Popen(
        [sys.executable, "-m", "papers.tests.tiny_paper", str(out), "2", "500"],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=partial(signal.signal, signal.SIGINT, disposition),
        text=True,
    ) as run:
        wait_until(reached.exists)
        os.killpg(run.pid, signal.SIGINT)
        yield run


@pytest.mark.skipif(sys.platform == "win32", reason="interrupts a group of processes")
def test_an_interrupted_run_ends_without_running_the_rest(out):
    """Ctrl-C goes to the run and its workers."""
    with interrupted(out, signal.SIG_DFL) as run:
        _, said = run.communicate(timeout=60)
    assert said.count("KeyboardInterrupt") == 1  # the run's own, none of a worker
    assert len(list((out / "runs" / "full" / "first").iterdir())) < 20


@pytest.mark.skipif(sys.platform == "win32", reason="interrupts a group of processes")
def test_workers_of_a_run_that_ignores_interrupts_ignore_them_too(out):
    """Background jobs of a script ignore Ctrl-C, which is meant for the foreground."""
    done = out / "runs" / "full" / "first"
    with interrupted(out, signal.SIG_IGN) as run:
        before = len(list(done.glob("*")))
        wait_until(lambda: run.poll() is not None or len(list(done.glob("*"))) > before)
        assert run.poll() is None
        os.killpg(run.pid, signal.SIGKILL)


@pytest.mark.parametrize("name", [name for name in PAPERS if name != "tiny"])
def test_long_parts_exist_and_are_not_all_parts(name):
    declared = getattr(import_module(PAPERS[name]), "LONG", ())
    assert set(declared) == set(long_parts(name)) < set(parts(name))


def marked(value):
    """Processes that carry the mark in their environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            environment = (process / "environ").read_bytes().split(b"\0")
            state = (process / "stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            continue
        if f"TINY_MARK={value}".encode() in environment and state != "Z":
            found.append(process.name)
    return found


def wait_until(happened, seconds=60):
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)
