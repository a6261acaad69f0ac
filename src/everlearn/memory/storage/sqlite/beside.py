"""Files that other parts of everlearn keep for a Memory, beside its journal or beside its folder.

    FOLDER/network-*.safetensors     networks that were trained on what was taught (deep/)
    FOLDER/night-*.training          a training that was interrupted               (deep/)
    FOLDER.parts/                    what an ingest made of pictures               (cluster/)

A backup takes networks along; an erase removes the others.
"""

import shutil
from pathlib import Path

NETWORKS = "network-*"
TRAINING = "night-*"
# The folders of a store of parts (cluster/store.py, cluster/vectors.py).
STORED = ("parts", "shards", "vectors")
KINDS = {
    NETWORKS: "a network that was trained",
    TRAINING: "an interrupted training",
    "snapshot-*": "a snapshot",
    "prepared-*": "a prepared answer",
    "reembed-*": "vectors of another network",
    "before-reembed*": "the journal of before a change of the network",
}


def parts_of(folder: Path) -> list[Path]:
    """What an ingest keeps for a Memory, unless it is told another place."""
    place = Path(f"{folder.absolute()}.parts")
    return [] if place.is_symlink() else [place / name for name in STORED]


def remove_derived(folder: Path) -> bool:
    """Remove trainings, and parts, which are made anew from the pictures; whether none is left."""
    for path in folder.glob(TRAINING):
        path.unlink(missing_ok=True) if not path.is_dir() else None
    parts = [part for part in parts_of(folder) if part.is_dir() and not part.is_symlink()]
    for part in parts:
        shutil.rmtree(part, ignore_errors=True)
    if parts and not any(parts[0].parent.iterdir()):
        parts[0].parent.rmdir()
    return not any(folder.glob(TRAINING)) and not any(part.exists() for part in parts)


def older_than(folder: Path, when: float) -> list[str]:
    """Files made from what was taught before a moment, in words."""
    found = [(what, path) for pattern, what in KINDS.items() for path in folder.glob(pattern)]
    for part in parts_of(folder):
        found += [("what an ingest kept", path) for path in part.glob("*")]
    words = []
    for what, path in found:
        try:
            if path.lstat().st_mtime < when:
                words.append(f"{path} is {what} from before the erase")
        except FileNotFoundError:
            continue
    return words
