"""Boxes of teachings, and proposals of taught pictures, in the journal.

A teaching of a part of its picture has a row in ``boxes``. The row says whether the user gave the
box or the Memory found it: two teachings are of the same thing if their picture and *given* box are
the same.

``proposals`` holds, once per picture, the boxes that a proposer found in it and their vectors.
Those that overlap no taught box of the picture are background (model/background.py). They are kept
as long as the picture has a teaching, counting or not, so that an undo can use them again; an erase
removes those of pictures without teachings.

The box of a stored unknown image (table ``strangers``) is appended to its source as a media
fragment of the W3C: ``photo.jpg#xywh=percent:10,20,30,40``, left, top, width and height. The table
is older than boxes and has no columns for them.
"""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from everlearn.memory.storage.interface import damaged_journal
from everlearn.memory.storage.rows import (
    PictureProposals,
    TaughtBox,
    content_digest,
    given_box,
    row_checksum,
)
from everlearn.regions.boxes import Box, Boxes, rounded

if TYPE_CHECKING:
    from everlearn.memory.storage.journal import Journal


def has_boxes(journal: "Journal") -> bool:
    """Whether the journal's format has tables for boxes and proposals."""
    return journal.db.has_table("boxes")


def box_row(teaching: int, taught: TaughtBox) -> tuple[Any, ...]:
    """The row of a teaching's box, with its checksum."""
    row = teaching, *map(float, taught.box), int(taught.found)
    return *row, row_checksum("boxes", *row)


def write_box(journal: "Journal", teaching: int, taught: TaughtBox) -> None:
    """Write the box of a teaching; call inside a transaction."""
    journal.db.replace("boxes", *box_row(teaching, taught))


def taught_boxes(journal: "Journal") -> dict[int, TaughtBox]:
    """The boxes of all teachings that have one, by id."""
    if not has_boxes(journal):
        return {}
    return {
        row[0]: checked_box(journal, row) for row in journal.db.rows(f"{_SELECT} ORDER BY teaching")
    }


def given_boxes(journal: "Journal") -> dict[int, Box | None]:
    """The given boxes of all teachings that have a box, by id; ``None`` for a found one."""
    return {teaching: given_box(taught) for teaching, taught in taught_boxes(journal).items()}


def taught_box(journal: "Journal", teaching: int) -> TaughtBox | None:
    """The box of one teaching, or ``None``."""
    if not has_boxes(journal):
        return None
    row = journal.db.row(f"{_SELECT} WHERE teaching = ?", teaching)
    return None if row is None else checked_box(journal, row)


def checked_box(journal: "Journal", row: Sequence[Any]) -> TaughtBox:
    """The box in a row of ``boxes``, given with all columns and required to be unaltered."""
    if row[-1] != row_checksum("boxes", *row[:-1]):
        raise damaged_journal(journal.db, "a box was altered")
    return TaughtBox(Box(*row[1:5]), bool(row[5]))


def drop_boxes(journal: "Journal", teachings: list[tuple[int]]) -> None:
    """Remove the boxes of these teachings, and the proposals of pictures without teachings.

    Call inside a transaction, after the teachings themselves were changed.
    """
    journal.db.run_many("DELETE FROM boxes WHERE teaching = ?", teachings)
    journal.db.run("DELETE FROM proposals WHERE digest NOT IN (SELECT digest FROM teachings)")


def write_proposals(journal: "Journal", digest: bytes, proposals: PictureProposals) -> None:
    """Write the proposals of a picture; call inside a transaction."""
    boxes = proposals.boxes.astype("<f8", copy=False).tobytes()
    vectors = proposals.vectors.astype("<f4", copy=False).tobytes()
    checksum = row_checksum("proposals", digest, content_digest(boxes), content_digest(vectors))
    journal.db.replace("proposals", digest, boxes, vectors, checksum)


def proposals_of(journal: "Journal", digest: bytes) -> PictureProposals | None:
    """The proposals of a picture, or ``None``."""
    if not has_boxes(journal):
        return None
    row = journal.db.row("SELECT boxes, vectors, seal FROM proposals WHERE digest = ?", digest)
    if row is None:
        return None
    boxes, vectors, checksum = row
    if not isinstance(boxes, bytes) or not isinstance(vectors, bytes):
        raise damaged_journal(journal.db, "proposals are not stored as bytes")
    if checksum != row_checksum(
        "proposals", digest, content_digest(boxes), content_digest(vectors)
    ):
        raise damaged_journal(journal.db, "the proposals of a picture were altered")
    count, width = len(boxes) // 32, 4 * journal.n_features
    if len(boxes) != 32 * count or len(vectors) != width * count:
        raise damaged_journal(journal.db, "the proposals of a picture have the wrong length")
    corners = np.frombuffer(boxes, dtype="<f8").reshape(count, 4).astype(np.float64)
    rows = np.frombuffer(vectors, dtype="<f4").reshape(count, journal.n_features)
    if not (np.isfinite(corners).all() and np.isfinite(rows).all()):
        raise damaged_journal(journal.db, "the proposals of a picture hold NaN or infinity")
    return PictureProposals(corners, rows)


def pictures_with_proposals(journal: "Journal") -> list[bytes]:
    """Digests of the pictures that count and have proposals, in order of teaching."""
    if not has_boxes(journal):
        return []
    rows = journal.db.rows(
        "SELECT teachings.digest FROM teachings JOIN proposals USING (digest) "
        "WHERE position IS NOT NULL GROUP BY teachings.digest ORDER BY MIN(position)"
    )
    return [row[0] for row in rows]


def counting_boxes(journal: "Journal", digest: bytes) -> Boxes:
    """The taught boxes of a picture that count; the whole picture if there is none."""
    rows = journal.db.rows(
        "SELECT teachings.id, x0, y0, x1, y1, found, boxes.seal FROM teachings "
        "LEFT JOIN boxes ON teaching = id WHERE digest = ? AND position IS NOT NULL "
        "ORDER BY position",
        digest,
    )
    whole = (0.0, 0.0, 1.0, 1.0)
    found = [whole if row[1] is None else tuple(checked_box(journal, row).box) for row in rows]
    return np.array(found, dtype=np.float64).reshape(-1, 4)


def with_box(source: str, box: Box | None) -> str:
    """A source and a box as one text, which :func:`without_box` splits again."""
    if box is None:
        return f"{source}#xywh=" if _FRAGMENT.search(source) else source
    sides = box.left, box.top, box.right - box.left, box.bottom - box.top
    return f"{source}#xywh=percent:" + ",".join(f"{100.0 * side:.4f}" for side in sides)


def without_box(written: str) -> tuple[str, Box | None]:
    """The source and the box of what :func:`with_box` wrote."""
    found = _FRAGMENT.search(written)
    if found is None:
        return written, None
    source = written[: found.start()]
    if not found[1]:
        return source, None
    left, top, width, height = (float(side) / 100.0 for side in found[1].split(","))
    return source, rounded((left, top, left + width, top + height))


def packed(region: TaughtBox | None, proposals: PictureProposals | None) -> bytes:
    """A box and proposals as bytes for :func:`unpacked`; empty if there is neither."""
    arrays = {}
    if region is not None:
        arrays["region"] = np.array([*region.box, region.found], dtype=np.float64)
    if proposals is not None:
        arrays["boxes"] = np.ascontiguousarray(proposals.boxes, dtype=np.float64)
        arrays["vectors"] = np.ascontiguousarray(proposals.vectors, dtype=np.float32)
    return bytes(save(arrays)) if arrays else b""


def unpacked(data: bytes) -> tuple[TaughtBox | None, PictureProposals | None]:
    """Inverse of :func:`packed`; raises ``ValueError`` for anything else."""
    if not data:
        return None, None
    try:
        arrays = load(data)
    except SafetensorError as error:
        raise ValueError(str(error)) from None
    region = proposals = None
    if "region" in arrays:
        if arrays["region"].dtype != np.float64 or arrays["region"].shape != (5,):
            raise ValueError("no box")
        *box, found = arrays["region"].tolist()
        _require_boxes(np.array([box], dtype=np.float64))
        region = TaughtBox(Box(*box), bool(found))
    if "boxes" in arrays and "vectors" in arrays:
        proposals = PictureProposals(arrays["boxes"], arrays["vectors"])
        _require_boxes(proposals.boxes)
        vectors = proposals.vectors
        if vectors.dtype != np.float32 or vectors.ndim != 2 or not np.isfinite(vectors).all():
            raise ValueError("no vectors")
        if len(vectors) != len(proposals.boxes):
            raise ValueError("not one vector per box")
    return region, proposals


def _require_boxes(boxes: Boxes) -> None:
    if boxes.dtype != np.float64 or boxes.ndim != 2 or boxes.shape[1] != 4:
        raise ValueError("no boxes")
    inside = (boxes >= 0.0).all() and (boxes <= 1.0).all()  # false for NaN
    if not inside or not (boxes[:, :2] < boxes[:, 2:]).all():
        raise ValueError("boxes outside of a picture")


_FRAGMENT = re.compile(r"#xywh=(?:percent:(\d+\.\d{4}(?:,\d+\.\d{4}){3}))?\Z")
_SELECT = "SELECT teaching, x0, y0, x1, y1, found, seal FROM boxes"
