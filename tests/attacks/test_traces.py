"""The search for traces finds them wherever a file may hold them."""

import hashlib
import io
import json
import sqlite3
import zipfile

import numpy as np
import pytest
from PIL import Image

from attacks import traces

VECTOR = np.random.default_rng(0).normal(size=64)
NAME = "Geheimer Name é"


def photo(seed):
    file = io.BytesIO()
    pixels = np.random.default_rng(seed).integers(0, 255, (60, 80, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(file, "JPEG")
    return file.getvalue()


def as_row(path, value):
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE t (x)")
        db.execute("INSERT INTO t VALUES (?)", (value,))
    db.close()


HIDDEN = {
    "a row": lambda path: as_row(path, NAME),
    "JSON": lambda path: path.write_text(json.dumps([NAME])),
    "numpy": lambda path: np.save(path.with_suffix(".npy"), np.array([NAME])),
    "an archive": lambda path: np.savez_compressed(path, words=np.array([NAME])),
    "a name of a file": lambda path: (path.parent / NAME).touch(),
    "float32": lambda path: path.write_bytes(b"x" + VECTOR.astype("<f4").tobytes()),
    "float64": lambda path: np.savez_compressed(path, X=np.stack([VECTOR, VECTOR])),
    "float16": lambda path: path.write_bytes(b"xyz" + VECTOR.astype("<f2").tobytes()),
    "length one": lambda path: np.save(path, VECTOR / np.linalg.norm(VECTOR)),
    "half of a vector": lambda path: path.write_bytes(VECTOR.tobytes()[200:]),
    "pages": lambda path: as_row(path, photo(1)),
    "a digest": lambda path: path.write_text(f"[{hashlib.sha256(photo(1)).hexdigest()}]"),
}


@pytest.mark.parametrize("where", HIDDEN)
def test_what_is_hidden_is_found(tmp_path, where):
    wanted = [
        *traces.of_text("name", NAME),
        *traces.of_vector("vector", VECTOR),
        *traces.of_image("image", photo(1), unlike=[photo(2)]),
    ]
    (tmp_path / "harmless").write_bytes(photo(2) + b"A name" + (2 * VECTOR).tobytes()[::-1])
    assert traces.found([tmp_path], wanted) == []
    HIDDEN[where](tmp_path / "hidden")
    assert traces.found([tmp_path], wanted)


def test_an_archive_in_an_archive_is_searched(tmp_path):
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word", NAME)
    with zipfile.ZipFile(tmp_path / "outer", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("inner", inner.getvalue())
    (where,) = traces.found([tmp_path / "outer"], traces.of_text("name", NAME))
    assert where.endswith("outer/inner/word")
