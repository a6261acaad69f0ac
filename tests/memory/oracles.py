"""A slow and obvious Memory: a plain list."""

import copy
from dataclasses import dataclass, field

import numpy as np


@dataclass
class PlainMemory:
    """Keeps what was taught as (vector, name, source), and a copy of all of it per operation."""

    taught: list[tuple[tuple[float, ...], str, str]] = field(default_factory=list)
    before: list[list[tuple[tuple[float, ...], str, str]]] = field(default_factory=list)
    undone: list[list[tuple[tuple[float, ...], str, str]]] = field(default_factory=list)

    def teach(self, vector, name, source):
        if any(known[:2] == (vector, name) for known in self.taught):
            return False
        self._remember()
        self.taught.append((vector, name, source))
        return True

    def forget(self, *, name=None, source=None):
        self._remember()
        self.taught = [
            known
            for known in self.taught
            if not ((name is None or known[1] == name) and (source is None or known[2] == source))
        ]

    def rename(self, old, new):
        self._remember()
        self.taught = [(v, new if name == old else name, s) for v, name, s in self.taught]

    def undo(self):
        self.undone.append(self.taught)
        self.taught = self.before.pop()

    def redo(self):
        self.before.append(self.taught)
        self.taught = self.undone.pop()

    def erase(self, name):
        self.taught = [known for known in self.taught if known[1] != name]
        self.before, self.undone = [], []

    def counts(self):
        names = [name for _, name, _ in self.taught]
        return {name: names.count(name) for name in sorted(set(names))}

    def matrix(self):
        X = np.array([vector for vector, _, _ in self.taught], dtype=np.float32)
        return X, np.array([name for _, name, _ in self.taught])

    def _remember(self):
        self.before.append(copy.deepcopy(self.taught))
        self.undone = []


def naive_familiarity(X, names, u):
    """Cosine of ``u`` to the direction of each class, by pairs and loops; rows have length 1."""
    classes = sorted(set(names))
    pair_sums, pair_counts = {}, {}
    for name in classes:
        rows = [x for x, own in zip(X, names, strict=True) if own == name]
        pairs = [a @ b for i, a in enumerate(rows) for b in rows[i + 1 :]]
        pair_sums[name], pair_counts[name] = sum(pairs), len(pairs)
    total = sum(pair_counts.values())
    overall = sum(pair_sums.values()) / total if total else 1.0
    scores = []
    for name in classes:
        squared = (pair_sums[name] + 10 * overall) / (pair_counts[name] + 10)
        mean = np.mean([x for x, own in zip(X, names, strict=True) if own == name], axis=0)
        scores.append(u @ mean / np.sqrt(max(squared, 1e-6)))
    return scores
