"""Starts the service with two things already taught: make serve.

They are crops of the two photographs that are included in scikit-learn. Anything else is unknown.
"""

import contextlib
import subprocess
import sys
from pathlib import Path

from everlearn import Memory
from everlearn.cli.demo import write_crops

OUT = Path("out")
THINGS = {"flower": "flower.jpg", "temple": "china.jpg"}


def main() -> None:
    found = {name: write_crops(OUT / "photographs", file) for name, file in THINGS.items()}
    with Memory(OUT / "memory") as memory:
        for name, files in found.items():
            for file in files[:-1]:
                memory.teach(file, name)
    print(f"Not taught yet, to drop on the page: {', '.join(str(f[-1]) for f in found.values())}")
    command = [sys.executable, "-m", "everlearn", "--memory", str(OUT / "memory"), "serve"]
    with contextlib.suppress(KeyboardInterrupt):
        subprocess.run([*command, *sys.argv[1:]], check=False)


if __name__ == "__main__":
    main()
