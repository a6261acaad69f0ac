"""A limit on the memory that all clients together may use with what they send."""


class HeldBytes:
    """Counts the bytes of all requests that are being received or answered.

    Parameters
    ----------
    most : int

    Attributes
    ----------
    total : int
        Bytes held now.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.total = 0

    def take(self, size: int) -> bool:
        """Count ``size`` more bytes, unless the limit would be exceeded; returns whether they fit.

        A negative size frees bytes.
        """
        if size > 0 and self.total + size > self._most:
            return False
        self.total += size
        return True
