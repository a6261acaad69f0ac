# %% [markdown]
# # A robot that learns objects one at a time
# Each object turns in front of the camera for a few frames; then the robot is asked about views it
# has not seen. The objects are drawn here, as a substitute for a turntable: replace `frame` by your
# own frames.

# %%
import tempfile

import numpy as np

from everlearn import Memory, Pixels

OBJECTS = {"red disc": (200, 60, 50), "green bar": (60, 170, 70), "blue square": (60, 80, 200)}


def frame(name: str, angle: float) -> np.ndarray:
    """One object, seen from one side: 64 × 64 pixels, RGB."""
    rows, columns = np.mgrid[-1:1:64j, -1:1:64j]
    across = columns * np.cos(angle) + rows * np.sin(angle)
    along = rows * np.cos(angle) - columns * np.sin(angle)
    inside = {
        "red disc": across**2 + (along / (0.6 + 0.4 * abs(np.cos(angle)))) ** 2 < 0.4,
        "green bar": (abs(across) < 0.2) & (abs(along) < 0.8),
        "blue square": (abs(across) < 0.5) & (abs(along) < 0.5),
    }[name]
    return np.where(inside[..., None], OBJECTS[name], (230, 225, 215)).astype(np.uint8)


# %% [markdown]
# One object after the other: five frames each, then a question about all objects so far.

# %%
with (
    tempfile.TemporaryDirectory() as folder,
    Memory(folder, embedder=Pixels(size=16, colour=True)) as robot,
):
    for count, name in enumerate(OBJECTS, start=1):
        for angle in np.linspace(0, np.pi / 2, 5):
            robot.teach(frame(name, angle), name)
        asked = [(n, a) for n in list(OBJECTS)[:count] for a in np.linspace(0.1, 1.4, 7)]
        right = sum(robot.ask(frame(n, a))[0].name == n for n, a in asked)
        print(f"after {name}: {right} of {len(asked)} unseen views named right")
    print(robot.undo())  # the last frame was a mistake
    print({name: known.count for name, known in robot.names().items()})
