"""Short runs of the programs in attacks/: kills, altered bytes, interrupts, forged files."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from attacks.attacked_folder import KINDS

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def attack(name, *arguments):
    """Run an attack in a separate process, which forks; returns its findings."""
    done = subprocess.run(
        [sys.executable, "-m", f"attacks.{name}", *map(str, arguments)],
        cwd=ROOT,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def test_a_kill_during_any_change_loses_nothing_acknowledged():
    tally = attack("crash", len(KINDS), 3)
    assert tally["killed_inside"] == dict.fromkeys(KINDS, 1)
    assert tally["wrong"] == []
    assert tally["lost"] == tally["counted_twice"] == tally["not_verified"] == tally["traces"] == 0


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler (cc) is installed")
def test_a_write_that_fails_in_any_change_loses_nothing_and_is_told_truly():
    found = attack("write_faults", len(KINDS) + 2, 1)
    assert found["inside"] == dict.fromkeys((*KINDS, "close", "open"), 1)
    assert (found["unnamed"], found["untrue"], found["wedged"]) == ([], [], [])
    checked = found["checked"]
    assert checked["wrong"] == []
    assert checked["lost"] == checked["counted_twice"] == checked["not_verified"] == 0
    assert checked["traces"] == 0


def test_altered_bytes_are_harmless_or_raise_a_named_error():
    verdicts = attack("altered_journals", 40, 7)
    assert sum(verdicts.values()) == 40
    assert not [verdict for verdict in verdicts if verdict.startswith(("SILENT", "RAW"))]


def test_an_interrupted_memory_continues():
    tally = attack("interrupted_memory", 60, 5)
    assert tally["interrupted"] == 60
    assert (tally["wedged"], tally["neither_old_nor_new"], tally["wrong"]) == (0, 0, [])


def test_readers_during_any_change_see_no_false_error():
    found = attack("beside_readers", 150, 2)
    assert found.pop("changes made meanwhile") > 0
    assert found == {"answered": 150}


def test_forged_folders_work_or_raise_a_named_error():
    verdicts, wrong = attack("forged_folders", 30, 4)
    assert sum(verdicts.values()) == 30
    assert verdicts["DamagedJournal"] > 10
    assert wrong == []


def test_forged_side_files_work_or_raise_a_named_error():
    found = attack("forged_side_files", 12, 1)
    assert {sum(verdicts.values()) for verdicts in found.values()} == {12}
    wrong = [(kind, verdict) for kind, verdicts in found.items() for verdict in verdicts]
    assert [one for one in wrong if one[1].startswith("RAW")] == []


def test_random_use_agrees_with_plain_lists():
    found = attack("random_use", 1, 25, 2)
    assert found["changes"] >= 25
    assert (found["differences"], found["unnamed"]) == ([], [])
