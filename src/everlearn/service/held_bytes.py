"""One limit on what all clients together have sent, whichever way they sent it."""


class HeldBytes:
    """How much all clients together have sent that is not answered yet.

    Parameters
    ----------
    most : int
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.now = 0

    def take(self, size: int) -> bool:
        """Whether so much more may be held; counts it if so. Less (a negative size) always may."""
        if size > 0 and self.now + size > self._most:
            return False
        self.now += size
        return True
