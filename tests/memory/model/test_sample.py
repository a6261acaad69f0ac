"""The sample of a journal, against a sort of everything that counts."""

import numpy as np
import pytest

from everlearn import Memory
from everlearn.memory.model.sample import sampling
from everlearn.statistics.slices import finished


@pytest.mark.parametrize("size", [1, 20, 60, 500])
@pytest.mark.parametrize("piece", [np.inf, 1.0, 2e6])
def test_a_sample_is_of_the_lowest_hashes_that_count(rng, tmp_path, size, piece):
    X = rng.normal(size=(300, 4)).astype(np.float32)
    with Memory(tmp_path / "memory") as memory:
        memory.teach_many((x, f"name {i % 7}") for i, x in enumerate(X))
        for number in range(1, 300, 2):
            memory.forget(id=number)
        memory.forget(name="name 3", erase=True)  # positions begin at one again
        journal = memory._opened.journal
        through = journal.last_position - 10
        counting = [number for number in range(2, 301, 2) if (number - 1) % 7 != 3][:through]
        chosen = sorted(sorted(counting, key=lambda number: number * 2654435761 % 2**32)[:size])
        vectors, names = memory._opened.read(
            lambda: finished(sampling(journal, size, through, piece))
        )
        np.testing.assert_array_equal(vectors, X[[number - 1 for number in chosen]])
        words = memory._opened.read(lambda: [journal.name_by_id(name) for name in names.tolist()])
        assert words == [f"name {(number - 1) % 7}" for number in chosen]
