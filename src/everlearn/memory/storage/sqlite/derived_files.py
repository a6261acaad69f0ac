"""Files derived from teachings that other packages store in or next to a Memory's folder.

    FOLDER/network-*.safetensors     networks trained on taught pictures           (deep/)
    FOLDER/night-*.training          an interrupted consolidation                  (deep/)
    FOLDER.parts/                    vectors computed by an ingest                 (cluster/)

A backup includes networks; an erase removes the other files. If ``FOLDER.parts`` is a symbolic
link, an erase does not follow it but lists it in the receipt.
"""

import shutil
from pathlib import Path

NETWORKS = "network-*"
TRAINING = "night-*"
# The folders that an ingest creates (cluster/store.py, cluster/vectors.py).
INGEST_FOLDERS = ("parts", "shards", "vectors")
DESCRIPTIONS = {
    NETWORKS: "a trained network",
    TRAINING: "an interrupted training",
    "snapshot-*": "a snapshot",
    "prepared-*": "a prepared answer",
    "reembed-*": "vectors of another network",
    "before-reembed*": "the journal from before a change of network",
}


def parts_of(folder: Path) -> list[Path]:
    """The folders where an ingest stores vectors, unless it is given another place."""
    place = _place_of_parts(folder)
    return [] if place.is_symlink() else [place / name for name in INGEST_FOLDERS]


def linked_parts(folder: Path) -> list[str]:
    """The place of the parts if it is a symbolic link."""
    place = _place_of_parts(folder)
    return [str(place)] if place.is_symlink() else []


def _place_of_parts(folder: Path) -> Path:
    return Path(f"{folder.absolute()}.parts")


def remove_derived(folder: Path) -> bool:
    """Remove interrupted trainings and parts; returns whether none is left."""
    for path in folder.glob(TRAINING):
        if not path.is_dir():
            path.unlink(missing_ok=True)
    parts = [part for part in parts_of(folder) if part.is_dir() and not part.is_symlink()]
    for part in parts:
        shutil.rmtree(part, ignore_errors=True)
    if parts and not any(parts[0].parent.iterdir()):
        parts[0].parent.rmdir()
    return not any(folder.glob(TRAINING)) and not any(part.exists() for part in parts)


def older_than(folder: Path, when: float) -> list[str]:
    """Files derived from teachings before the given time, as sentences."""
    found = [
        (what, path) for pattern, what in DESCRIPTIONS.items() for path in folder.glob(pattern)
    ]
    return _sentences(found, when) + _parts_older_than(parts_of(folder), when)


def stored_before(place: Path, when: float) -> list[str]:
    """Files that an ingest stored at a place before the given time, as sentences."""
    return _parts_older_than([place / name for name in INGEST_FOLDERS], when)


def _parts_older_than(parts: list[Path], when: float) -> list[str]:
    found = [("a file of an ingest", path) for part in parts for path in part.glob("*")]
    return _sentences(found, when)


def _sentences(found: list[tuple[str, Path]], when: float) -> list[str]:
    sentences = []
    for what, path in found:
        try:
            if path.lstat().st_mtime < when:
                sentences.append(f"{path} is {what} from before the erase")
        except FileNotFoundError:
            continue
    return sentences
