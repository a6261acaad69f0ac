# %% [markdown]
# # Repair of occluded faces by robust PCA
# Faces are drawn here (an oval, two eyes, a mouth, light from one side), so that nothing has to be
# downloaded; `fetch_olivetti_faces` of scikit-learn gives real ones.

# %%
import numpy as np

from everlearn import RobustStreamingPCA

rng = np.random.default_rng(0)
SIDE = 24
rows, columns = np.mgrid[-1 : 1 : SIDE * 1j, -1 : 1 : SIDE * 1j]


def face() -> np.ndarray:
    """One face: identity and light are a few numbers."""
    width, mouth, light = rng.normal(size=3)
    oval = np.exp(-(((columns / (0.7 + 0.05 * width)) ** 2 + rows**2) ** 3))
    eyes = sum(np.exp(-40 * ((columns - s * 0.3) ** 2 + (rows + 0.25) ** 2)) for s in (-1, 1))
    lips = np.exp(-60 * (rows - 0.45 - 0.05 * mouth * columns**2) ** 2 - 8 * columns**2)
    return (oval * (1 + 0.2 * light * columns) - 0.7 * eyes - 0.5 * lips).ravel()


# %% [markdown]
# Learn from sixty faces, a fifth of them with a dark square in front; which ones is not given.

# %%
truth = np.stack([face() for _ in range(70)])
seen = truth.copy()
for image in seen[:60:5]:
    top, left = rng.integers(0, SIDE - 8, size=2)
    image.reshape(SIDE, SIDE)[top : top + 8, left : left + 8] = -1.5
eigenspace = RobustStreamingPCA(n_components=6, image_shape=(SIDE, SIDE), seed_images=30)
eigenspace.partial_fit(seen[:60])

# %% [markdown]
# Ten new faces, each behind a square, and the repaired images.

# %%
hidden = truth[60:].copy()
hidden.reshape(-1, SIDE, SIDE)[:, 6:14, 4:12] = -1.5
repaired = eigenspace.restore(hidden)
before, after = (np.sqrt(((images - truth[60:]) ** 2).mean()) for images in (hidden, repaired))
print(f"error per pixel: {before:.3f} as seen, {after:.3f} repaired")
