"""Results as a plain table: rows of named values."""

import csv
import html
import io
import json
import math
from collections.abc import Iterable, Mapping
from typing import Any


class Table:
    """Rows with named values, in the order in which names first appear.

    Examples
    --------
    >>> from everlearn.evaluation import Table
    >>> print(Table([{"learner": "NCM", "accuracy": 0.595}]).to_markdown())
    | learner | accuracy |
    |---|---|
    | NCM | 0.595 |
    """

    def __init__(self, rows: Iterable[Mapping[str, Any]] = ()) -> None:
        self.rows = [dict(row) for row in rows]

    def __repr__(self) -> str:
        return self.to_markdown() if self.rows else "Table()"

    def _repr_html_(self) -> str:
        """HTML for notebooks."""
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self.columns)
        rows = (
            "".join(f"<td>{html.escape(_text(row.get(name)))}</td>" for name in self.columns)
            for row in self.rows
        )
        return f"<table><tr>{head}</tr>" + "".join(f"<tr>{row}</tr>" for row in rows) + "</table>"

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def columns(self) -> list[str]:
        return list(dict.fromkeys(name for row in self.rows for name in row))

    def add(self, **row: Any) -> None:
        self.rows.append(row)

    def to_markdown(self) -> str:
        """A Markdown table; missing values are empty."""
        columns = self.columns
        lines = [columns, ["---"] * len(columns)]
        lines += [[_text(row.get(name)) for name in columns] for row in self.rows]
        return "\n".join(
            "|" + "|".join(line) + "|" if line[0] == "---" else "| " + " | ".join(line) + " |"
            for line in lines
            if line
        )

    def to_csv(self) -> str:
        """Comma-separated values with a header; numbers in full, missing values empty."""
        file = io.StringIO()
        writer = csv.DictWriter(file, self.columns, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: _plain(value) for name, value in row.items()} for row in self.rows)
        return file.getvalue()

    def to_json(self) -> str:
        """A list of objects; numbers that JSON cannot represent become null."""
        return json.dumps(
            [{name: _plain(value) for name, value in row.items()} for row in self.rows],
            ensure_ascii=False,
            indent=1,
        )

    def to_pandas(self) -> Any:
        """A ``pandas.DataFrame``."""
        import pandas as pd

        return pd.DataFrame(self.rows, columns=self.columns)


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}" if math.isfinite(value) else "–"
    return str(value).replace("|", "\\|").replace("\n", " ")


def _plain(value: Any) -> Any:
    if hasattr(value, "item"):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
