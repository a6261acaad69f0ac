"""The address of a Memory in a database: a connection string and the name of the Memory.

    postgresql://user@host/database#shop       the Memory "shop"; without a name it is "memory"

All other settings (TLS, ports, several hosts) are passed to libpq unchanged. An address is shown
and logged without its password.
"""

import re
from dataclasses import dataclass, field
from typing import Any

from everlearn.errors import InvalidParameter, MissingPackage

SCHEMES = ("postgresql://", "postgres://")
DEFAULT_NAME = "memory"
NAME = re.compile(r"[A-Za-z0-9._-]{1,48}")


@dataclass(frozen=True)
class PostgresAddress:
    """A Memory in a PostgreSQL database.

    Attributes
    ----------
    name : str
        Name of the Memory.
    settings : dict
        libpq's connection parameters; not shown.
    """

    name: str
    settings: dict[str, Any] = field(repr=False, hash=False)

    @property
    def schema(self) -> str:
        """The schema that holds the Memory's tables."""
        return f"everlearn_{self.name}"

    @property
    def channel(self) -> str:
        """The channel on which changes are announced."""
        return self.schema

    def __str__(self) -> str:
        user, host, port, database = (
            str(self.settings.get(key, "")) for key in ("user", "host", "port", "dbname")
        )
        user = f"{user}@" if user else ""
        port = f":{port}" if port else ""
        return f"postgresql://{user}{host}{port}/{database}#{self.name}"

    def __repr__(self) -> str:
        return f"<{self}>"

    def hidden(self, message: str) -> str:
        """A message with any occurrence of the password removed."""
        password = str(self.settings.get("password") or "")
        return message.replace(password, "***") if password else message


def parse_address(text: str, name: str | None = None) -> PostgresAddress:
    """Parse a connection string with an optional name."""
    try:
        import psycopg
        from psycopg.conninfo import conninfo_to_dict
    except ModuleNotFoundError:
        raise MissingPackage(
            "a Memory in PostgreSQL needs psycopg; "
            "install it with: pip install 'everlearn[postgres]'"
        ) from None
    address, _, fragment = text.partition("#")
    if name is not None and fragment and fragment != name:
        raise InvalidParameter(
            f"the address names the Memory {fragment!r} and name= is {name!r}; give it once"
        )
    chosen = name if name is not None else fragment or DEFAULT_NAME
    if not NAME.fullmatch(chosen):
        raise InvalidParameter(
            "the name of a Memory in a database consists of at most 48 letters, digits, dots, "
            f"dashes and underscores; {chosen!r} does not"
        )
    try:
        settings = conninfo_to_dict(address)
    except psycopg.Error:
        # libpq's message repeats the part it could not parse, which may be the password.
        raise InvalidParameter(
            "the address of the database cannot be read; it looks like "
            "postgresql://user@host:5432/database#name, with %40 for an @ in a user or password"
        ) from None
    return PostgresAddress(chosen, dict(settings))
