# %% [markdown]
# # Few-shot birds from a folder of your own
# `python examples/few_shot_folder.py FOLDER`: one folder per species, a handful of photographs in
# each. Five of each are taught, the others are asked about. A question mark after an answer means
# that it was called unknown, with that name as the nearest.

# %%
import sys
import tempfile
from pathlib import Path

from everlearn import Memory

SHOTS = 5


def few_shot(folder: Path) -> float:
    """The share of the other photographs that are named correctly; unknown counts as wrong."""
    pictures = {
        place.name: sorted(p for p in place.iterdir() if p.suffix.lower() in (".jpg", ".png"))
        for place in sorted(folder.iterdir())
        if place.is_dir()
    }
    taught = [(path, name) for name, paths in pictures.items() for path in paths[:SHOTS]]
    asked = [(path, name) for name, paths in pictures.items() for path in paths[SHOTS:]]
    with tempfile.TemporaryDirectory() as place, Memory(place) as memory:
        memory.teach_many(taught)
        right = unknown = 0
        for path, name in asked:
            answers = memory.ask(path)
            right += answers[0].name == name and not answers.unknown
            unknown += answers.unknown
            said = f"{answers[0].name}{'?' * answers.unknown}"
            print(f"{path.name:20} is a {name:12} {said:12} {answers[0].probability:.0%}")
    print(f"{right} of {len(asked)} named right, {len(pictures)} names, {SHOTS} photographs each")
    print(f"{unknown} were called unknown (marked ?), which counts as a mistake")
    return right / len(asked)


# %%
if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("python examples/few_shot_folder.py FOLDER   (one folder per species in it)")
    few_shot(Path(sys.argv[1]))
