"""Table 1 of Ristin et al. (2015): relative performance, also with respect to row (a).

Relative performance divides by a forest retrained on the same classes with the same number of
trees. Row (a) has more trees, so the share of it is smaller; where a forest trained at once is
poor, as SVM forests on Omniglot are, both shares exceed 100 %.
"""

import re
from typing import Any

CELL = re.compile(r"(\d\.\d+) \(([\d.]+)\)")
MEASURED = "measured "


def with_shares_of_row_a(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of Table 1 with "0.569 (91.8)" as "0.569 (91.8; 88.4)", the latter by row (a)."""
    whole = {(row["data"], row["method"]): row for row in rows if row[""] == "a"}
    return [row if row[""] == "a" else _with_shares(row, whole) for row in rows]


def _with_shares(row: dict[str, Any], whole: dict[tuple[str, str], Any]) -> dict[str, Any]:
    first = re.sub(r"^MET_\d+", "MET", row["method"])
    at_once = whole.get((row["data"], first if first == "MET+NCM" else first.partition("+")[0]))
    done = dict(row)
    for name, cell in row.items():
        found = CELL.fullmatch(str(cell)) if name.startswith(MEASURED) else None
        if found and at_once and at_once.get(name):
            share = 100 * float(found[1]) / float(at_once[name])
            done[name] = f"{found[1]} ({found[2]}; {share:.1f})"
    return done
