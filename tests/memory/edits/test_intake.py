"""Images, files and vectors as examples of the journal."""

from dataclasses import replace

import numpy as np
import pytest

from attacks.hostile_images import photograph, saved
from everlearn import Memory
from everlearn.errors import NotFinite, WrongShape
from everlearn.images.embedders import Pixels
from everlearn.memory.storage.log import counting_examples


class Watched(Pixels):
    """Calls a function before it embeds."""

    def __init__(self, before, **settings):
        super().__init__(**settings)
        self.before = before

    def run(self, batch):
        self.before()
        return super().run(batch)


@pytest.mark.parametrize("change", ["removed", "overwritten"])
def test_a_file_that_changes_while_it_is_taught_does_not_stop_the_others(tmp_path, change):
    """Its vector is taught, and no other image is stored in its place."""
    files = []
    for number in range(3):
        files.append(tmp_path / f"{number}.png")
        files[-1].write_bytes(saved(photograph(30 + number), "PNG"))
    data = files[1].read_bytes()
    changes = {
        "removed": lambda: files[1].unlink(missing_ok=True),
        "overwritten": lambda: files[1].write_bytes(b"another file"),
    }
    embedder = Watched(changes[change], size=4)
    with Memory(tmp_path / "memory", embedder=embedder, keep_images="image") as memory:
        assert memory.teach_many((path, "pattern") for path in files).taught == 3
        stored = [memory._opened.journal.image(one.id) for one in memory.teachings()]
        assert stored == [files[0].read_bytes(), None, files[2].read_bytes()]
        assert memory.ask(data)[0].name == "pattern"
        assert memory.verify().ok


def test_embedded_examples_are_validated_like_vectors(tmp_path):
    with Memory(tmp_path) as memory:
        memory.teach([1.0, 2.0], "cup")
        ((_, example),) = counting_examples(memory._opened.journal)
        wrong = [
            (np.array([1.0, np.nan], np.float32), NotFinite),
            (np.array([1.0, 2.0]), WrongShape),
            (np.ones((1, 2), np.float32), WrongShape),
            (np.ones(0, np.float32), WrongShape),
        ]
        for vector, error in wrong:
            with pytest.raises(error):
                memory.teach(replace(example, vector=vector, digest=b"x" * 32), "cup")
        assert memory.names()["cup"].count == 1
