"""Re-runs of papers: their tables and figures beside the published numbers.

One folder per paper. ``PARTS`` of its ``paper`` module maps the name of a table or figure to the
function that produces it; published numbers are in ``published/NAME.json``, by table or figure.
"""

from everlearn_papers.reproduce import PAPERS, reproduce

__all__ = ["PAPERS", "reproduce"]
