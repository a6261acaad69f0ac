"""A process that teaches is killed at random moments; nothing acknowledged is lost."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_kill_at_random_moments_loses_nothing():
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.crash", "15", "3"],
        cwd=ROOT,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    tally = json.loads(done.stdout)
    assert tally["rounds"] == 15
    assert tally["acknowledged"] > 100
    assert tally["opened_from_a_snapshot"] > 0
    assert (tally["lost"], tally["counted_twice"], tally["models_that_differ"]) == (0, 0, 0)
