# %% [markdown]
# # Forgetting a person, provably
# Ann asks for her data to be deleted. Afterwards the model is, bit for bit, that of a Memory that
# was never taught Ann, and the receipt can be checked at any time.

# %%
import tempfile
from pathlib import Path

import numpy as np

from everlearn import Memory

rng = np.random.default_rng(0)
people = {name: rng.normal(size=32) for name in ("Ann", "Bob", "Eve")}


def photographs(name: str) -> np.ndarray:
    """A stand-in for vectors of a face embedder."""
    return (people[name] + 0.3 * rng.normal(size=(6, 32))).astype(np.float32)


shown = {name: photographs(name) for name in people}

# %%
with (
    tempfile.TemporaryDirectory() as folder,
    Memory(Path(folder) / "all") as memory,
    Memory(Path(folder) / "without") as never,
):
    for name, vectors in shown.items():
        for vector in vectors:
            memory.teach(vector, name)
            if name != "Ann":
                never.teach(vector, name)
    question = shown["Ann"][0] + 0.1
    print("before:", memory.ask(question)[0].name)
    gone = memory.forget(name="Ann", erase=True)
    assert gone.receipt is not None  # an erase has one
    gone.receipt.save(Path(folder) / "ann.json")
    print("forgotten:", gone)
    after, reference = memory.ask(question), never.ask(question)
    print("after:", after[0].name, "| never taught her:", reference[0].name)
    print("the same probability:", after[0].probability == reference[0].probability)
    print("every byte checked:", memory.verify(Path(folder) / "ann.json"))
