"""Additions of the documentation site to the files of docs/: see mkdocs.yml.

Pages of the project that live in the root of the repository (CONTRIBUTING, CHANGELOG, SECURITY) and
the benchmarks' results appear on the site without being copied there. ``{{ public: PACKAGE … }}``
on a page of the reference stands for every public name of these packages, read from the one list.
"""

import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LIST = ROOT / "src" / "everlearn" / "__init__.pyi"
NOTEBOOK = ROOT / "examples" / "tour.ipynb"
FOREIGN_SCRIPT = '<script src="https://unpkg.com/iframe-worker/shim"></script>'
BORROWED = {
    "project/contributing.md": "CONTRIBUTING.md",
    "project/changelog.md": "CHANGELOG.md",
    "project/security.md": "SECURITY.md",
    "benchmarks.md": "benchmarks/RESULTS.md",
}


def on_files(files: Any, config: Any) -> Any:
    """Add pages from outside of docs/."""
    from mkdocs.structure.files import File

    for place, source in BORROWED.items():
        files.append(File.generated(config, place, content=borrowed(place, ROOT / source)))
    files.append(File.generated(config, "tour.md", content=as_page(NOTEBOOK)))
    return files


def as_page(notebook: Path) -> str:
    """A notebook as a page: its text, and its code in blocks."""
    parts = []
    for cell in json.loads(notebook.read_text("utf-8"))["cells"]:
        text = "".join(cell["source"])
        parts.append(text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
    return "\n\n".join(parts) + "\n"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Expand the lists of public names."""
    return re.sub(r"^\{\{ public: ([\w. ]+) \}\}$", _directives, markdown, flags=re.MULTILINE)


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Our own replacement for a search worker, and accessibility fixes."""
    up = "../" * page.file.url.count("/")
    ours = f'<script src="{up}offline-search.js"></script>'
    output = output.replace(FOREIGN_SCRIPT, ours).replace("<th></th>", "<td></td>")
    return output.replace(
        'data-md-component="search" role="dialog"',
        'data-md-component="search" role="dialog" aria-label="Search"',
    )


def on_post_template(output_content: str, template_name: str, **_: Any) -> str:
    """No 404 page: a server has its own, and a folder needs none."""
    return "" if template_name == "404.html" else output_content


def borrowed(place: str, source: Path) -> str:
    """A page from the root folder, with links adjusted to the site."""
    text = source.read_text("utf-8")
    up = "../" * place.count("/")
    text = re.sub(r"\]\(docs/", f"]({up}", text)
    for other_place, other in BORROWED.items():
        text = text.replace(f"]({other})", f"]({up}{other_place})")
    if not text.startswith("# "):
        text = f"# {Path(place).stem.title()}\n\n{text}"
    return text


def public_modules() -> dict[str, str]:
    """The module of each public name: ``StreamingLDA`` in ``learners.slda``."""
    listed = LIST.read_text("utf-8")
    return {
        name: module for module, name in re.findall(r"^from \.(\S+) import (\w+) as", listed, re.M)
    }


def _directives(match: re.Match[str]) -> str:
    packages = match[1].split()
    modules = public_modules()
    named = sorted(
        (name for name, module in modules.items() if module.split(".")[0] in packages),
        key=str.lower,
    )
    return "\n".join(f"::: everlearn.{modules[name]}.{name}\n" for name in named)
