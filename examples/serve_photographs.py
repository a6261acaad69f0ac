"""The page on the demo photographs: make serve.

Teaches pieces of the two photographs that scikit-learn brings along, once, and serves them. Shown
something else, it says that it does not know it.
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
