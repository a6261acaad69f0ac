"""Addresses of servers, given by users and by other systems."""

from urllib.parse import urlsplit


def is_http(address: str) -> bool:
    """Whether this is an http or https address that can be connected to and asked for."""
    try:
        parts = urlsplit(address)
        _ = parts.port
    except ValueError:
        return False
    # http.client refuses spaces, control characters and other letters, with errors of its own.
    requested = parts.path + parts.query
    plain = address.isprintable() and " " not in address and requested.isascii()
    return plain and is_host(parts.hostname or "") and parts.scheme in ("http", "https")


def is_host(name: str) -> bool:
    """Whether this can be the name or the address of a machine."""
    try:
        name.encode("idna")
    except ValueError:
        return False
    return bool(name) and min(name) > " " and "\x7f" not in name
