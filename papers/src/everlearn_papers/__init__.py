"""The papers re-run: their tables and figures beside the published numbers.

One module or folder per paper. Its ``PARTS`` map the name of a table or figure to the function that
makes it; published numbers are in ``published/NAME.json``, each with its table or figure.
"""

from everlearn_papers.reproduce import PAPERS, reproduce

__all__ = ["PAPERS", "reproduce"]
