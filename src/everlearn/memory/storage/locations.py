"""Where a Memory is: a folder, or a database."""

import os
from pathlib import Path
from typing import Any

from everlearn.errors import InvalidParameter
from everlearn.memory.storage.interface import Storage
from everlearn.memory.storage.postgres.address import SCHEMES, PostgresAddress, parse_address
from everlearn.memory.storage.sqlite.folder import FolderStorage


def storage_at(path: Any, name: str | None = None) -> Storage:
    """The storage that a path or an address means.

    Parameters
    ----------
    path : path-like
    name : str, optional
        Of a Memory in a database; a folder holds one Memory and takes none.
    """
    if is_address(path):
        return _in_database(path, name)
    if not os.fspath(path):
        raise InvalidParameter("a Memory lives in a folder; its path is empty")
    if name is not None:
        raise InvalidParameter("a folder holds one Memory; name= is for databases")
    return FolderStorage(Path(path))


def is_address(path: object) -> bool:
    """Whether this names a database rather than a folder."""
    return isinstance(path, PostgresAddress) or (isinstance(path, str) and path.startswith(SCHEMES))


def _in_database(path: str | PostgresAddress, name: str | None) -> Storage:
    address = path if isinstance(path, PostgresAddress) else parse_address(path, name)
    # Imported lazily: only Memories in a database need psycopg.
    from everlearn.memory.storage.postgres.storage import PostgresStorage

    return PostgresStorage(address)
