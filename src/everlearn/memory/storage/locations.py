"""Resolves the location of a Memory: a folder, or a database."""

import os
from pathlib import Path
from typing import Any

from everlearn.errors import InvalidParameter
from everlearn.memory.storage.interface import Storage
from everlearn.memory.storage.postgres.address import SCHEMES, PostgresAddress, parse_address
from everlearn.memory.storage.sqlite.folder import FolderStorage


def storage_at(path: Any, name: str | None = None) -> Storage:
    """The storage for a path or an address.

    Parameters
    ----------
    path : path-like or address
    name : str, optional
        Name of a Memory in a database; not allowed for a folder, which holds one Memory.
    """
    if is_address(path):
        return _in_database(path, name)
    if not os.fspath(path):
        raise InvalidParameter("the path of a Memory is empty; give a folder or an address")
    if name is not None:
        raise InvalidParameter("a folder holds one Memory; name= is for databases")
    return FolderStorage(Path(path))


def is_address(path: object) -> bool:
    """Whether this is the address of a database rather than a folder."""
    return isinstance(path, PostgresAddress) or (isinstance(path, str) and path.startswith(SCHEMES))


def _in_database(path: str | PostgresAddress, name: str | None) -> Storage:
    address = path if isinstance(path, PostgresAddress) else parse_address(path, name)
    # Imported lazily: only Memories in a database need psycopg.
    from everlearn.memory.storage.postgres.storage import PostgresStorage

    return PostgresStorage(address)
