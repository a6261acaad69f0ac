"""Stores parts between runs in a folder or a bucket, through fsspec.

A part is written atomically and contains a digest: it is either complete, or the damage is
detected. Object stores write a file atomically by themselves; in a local folder a temporary file is
renamed.
"""

import hashlib
from pathlib import Path

from everlearn.cluster.sharded_model import ShardedModel
from everlearn.cluster.shards import file_system, is_local
from everlearn.errors import CannotWrite, DamagedModel, NotAModel
from everlearn.persistence import loads, replace_file

PARTS = "parts"
SHARDS = "shards"


class CheckpointStore:
    """Named parts at an address.

    ``parts`` are partial merges, named by their node in the tree; ``shards`` are the contributions
    of single shards, if they are kept.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self._system, self._root = file_system(address)

    def names(self, folder: str = PARTS) -> set[str]:
        """The names of the stored parts."""
        try:
            found = self._system.ls(f"{self._root}/{folder}", detail=False)
        except (FileNotFoundError, NotADirectoryError):
            return set()
        return {name for name in (path.rsplit("/", 1)[-1] for path in found) if name[0] != "."}

    def write(self, name: str, data: bytes, folder: str = PARTS) -> None:
        path = f"{self._root}/{folder}/{name}"
        try:
            self._system.makedirs(f"{self._root}/{folder}", exist_ok=True)
            if is_local(self._system):
                replace_file(Path(path), data)
            else:
                self._system.pipe_file(path, data)
        except OSError as error:
            raise CannotWrite(f"a part cannot be written to {self.address}: {error}") from error

    def read(self, name: str, folder: str = PARTS) -> ShardedModel | None:
        """A part, or ``None`` if it is missing; a damaged one is removed."""
        data = self.read_bytes(name, folder)
        if data is None:
            return None
        try:
            part = loads(data, name)
        except (DamagedModel, NotAModel):
            self.remove(name, folder)
            return None
        return part if isinstance(part, ShardedModel) else None

    def read_bytes(self, name: str, folder: str) -> bytes | None:
        try:
            return bytes(self._system.cat_file(f"{self._root}/{folder}/{name}"))
        except (FileNotFoundError, NotADirectoryError):
            return None

    def remove(self, name: str, folder: str = PARTS) -> None:
        try:
            self._system.rm_file(f"{self._root}/{folder}/{name}")
        except (FileNotFoundError, NotADirectoryError):
            return


def name_of_shard(job: str, identity: str) -> str:
    """The name under which the contribution of a shard is stored."""
    return hashlib.sha256(f"{job}\n{identity}".encode()).hexdigest()
