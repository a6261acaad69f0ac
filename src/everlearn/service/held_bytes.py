"""One limit on the bytes that all clients together have sent."""


class HeldBytes:
    """Bytes sent by all clients that are not answered yet.

    Parameters
    ----------
    most : int
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.now = 0

    def take(self, size: int) -> bool:
        """Count more bytes if the limit allows, and return whether it does; less always fits."""
        if size > 0 and self.now + size > self._most:
            return False
        self.now += size
        return True
