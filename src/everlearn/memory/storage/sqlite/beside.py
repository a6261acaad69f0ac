"""Files that other packages keep for a Memory, beside its journal or beside its folder.

    FOLDER/network-*.safetensors     networks trained on taught pictures           (deep/)
    FOLDER/night-*.training          an interrupted consolidation                  (deep/)
    FOLDER.parts/                    vectors computed by an ingest                 (cluster/)

A backup includes networks; an erase removes the other files. It does not follow a link at the place
of the parts, and names it instead.
"""

import shutil
from pathlib import Path

NETWORKS = "network-*"
TRAINING = "night-*"
# Folders of a store of parts (cluster/store.py, cluster/vectors.py).
STORED = ("parts", "shards", "vectors")
KINDS = {
    NETWORKS: "a trained network",
    TRAINING: "an interrupted training",
    "snapshot-*": "a snapshot",
    "prepared-*": "a prepared answer",
    "reembed-*": "vectors of another network",
    "before-reembed*": "the journal from before a change of network",
}


def parts_of(folder: Path) -> list[Path]:
    """The files an ingest keeps for a Memory, unless it is given another place."""
    place = Path(f"{folder.absolute()}.parts")
    return [] if place.is_symlink() else [place / name for name in STORED]


def linked_parts(folder: Path) -> list[str]:
    """The place of the parts if it is a link."""
    place = Path(f"{folder.absolute()}.parts")
    return [str(place)] if place.is_symlink() else []


def remove_derived(folder: Path) -> bool:
    """Remove interrupted trainings and parts, which can be recomputed; whether none is left."""
    for path in folder.glob(TRAINING):
        path.unlink(missing_ok=True) if not path.is_dir() else None
    parts = [part for part in parts_of(folder) if part.is_dir() and not part.is_symlink()]
    for part in parts:
        shutil.rmtree(part, ignore_errors=True)
    if parts and not any(parts[0].parent.iterdir()):
        parts[0].parent.rmdir()
    return not any(folder.glob(TRAINING)) and not any(part.exists() for part in parts)


def older_than(folder: Path, when: float) -> list[str]:
    """Files derived from teachings before the given time, as sentences."""
    found = [(what, path) for pattern, what in KINDS.items() for path in folder.glob(pattern)]
    return _said(found, when) + _parts_older_than(parts_of(folder), when)


def stored_before(place: Path, when: float) -> list[str]:
    """Files that an ingest stored at some place before the given time, as sentences."""
    return _parts_older_than([place / name for name in STORED], when)


def _parts_older_than(parts: list[Path], when: float) -> list[str]:
    found = [("a file of an ingest", path) for part in parts for path in part.glob("*")]
    return _said(found, when)


def _said(found: list[tuple[str, Path]], when: float) -> list[str]:
    words = []
    for what, path in found:
        try:
            if path.lstat().st_mtime < when:
                words.append(f"{path} is {what} from before the erase")
        except FileNotFoundError:
            continue
    return words
