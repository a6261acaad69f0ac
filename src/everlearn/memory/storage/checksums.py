"""Digests by which the journal notices that its bytes were altered.

Every row carries a *checksum*, a digest of its other columns, so that a row that was altered does
not pass for what was written. Every entry of the log is also linked to the one before,

    chain_i = digest(chain_(i−1), entry_i, content of the teaching's vector),   chain_0 = zeros

so that the chain at a position names everything up to it: two journals with the same chain at the
same position hold the same log, and a model folded from one is a model of the other.

The digests guard against damage, not against a forger, who can compute them too; what a forger may
have put into a row is looked at where the journal is opened (integrity.py).
"""

from hashlib import blake2b

SIZE = 16
BEGINNING = bytes(SIZE)

Value = int | float | str | bytes | None


def row_checksum(table: str, *values: Value) -> bytes:
    """The digest of one row: the same values give the same digest in every version of Python."""
    return blake2b(ascii((table, *values)).encode(), digest_size=SIZE).digest()


def content_of(data: bytes) -> bytes:
    """The digest of a vector's or picture's bytes."""
    return blake2b(data, digest_size=SIZE).digest()


def linked(
    before: bytes,
    position: int,
    operation: int,
    teaching: int,
    name: int,
    sign: int,
    content: bytes,
) -> bytes:
    """The chain at an entry of the log, from the chain before it."""
    entry = ascii((position, operation, teaching, name, sign)).encode()
    return blake2b(before + content + entry, digest_size=SIZE).digest()
