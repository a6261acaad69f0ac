"""Addresses of HTTP servers, given by users and by other systems."""

from urllib.parse import urlsplit


def is_http(address: str) -> bool:
    """Whether this is an http or https address whose host and port can be connected to."""
    try:
        parts = urlsplit(address)
        host = parts.hostname or ""
        _ = parts.port, host.encode("idna")
    except ValueError:
        return False
    # http.client refuses spaces and control characters, with an error of its own.
    usable = bool(host) and min(host) > " " and "\x7f" not in host
    return usable and parts.scheme in ("http", "https")
