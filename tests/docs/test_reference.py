"""Every public name documents its parameters, cost and promises, and has an example."""

import dataclasses
import importlib
import inspect
import re
import typing

import pytest

import everlearn
from tests.docs.blocks import ROOT


@pytest.mark.parametrize("name", everlearn.__all__)
def test_a_public_name_is_fully_documented(name):
    thing = getattr(everlearn, name)
    text = inspect.getdoc(thing)
    taken = [word for word in inspect.signature(thing).parameters if word not in ("self", "args")]
    sections = re.findall(r"^(\w[\w ]*)\n-+$", text, re.MULTILINE)
    if taken:
        described = "Attributes" if name in ("ShardedModel", "Trained") else "Parameters"
        assert described in sections
        part = text[text.index(f"{described}\n--") :]
        for word in taken:
            assert re.search(rf"^(?:[\w, ]*\b)?{word}\b", part, re.MULTILINE), f"{word} is missing"
    assert re.search(r"O\(|\b[Cc]osts?\b", text), "what does it cost?"
    assert "*Promises*" in text, "what does it promise?"
    assert ">>> " in text, "an example is missing"


REFERENCE = ROOT / "docs" / "reference"
PACKAGES = ("streams", "evaluation", "regions", "images", "cluster")


def listed() -> set[str]:
    """Names that the pages of the reference describe."""
    text = "\n".join(page.read_text("utf-8") for page in REFERENCE.glob("*.md"))
    found = re.findall(r"^::: everlearn\.(?:[\w.]+\.)?(\w+)$", text, re.MULTILINE)
    return {*found, *everlearn.__all__}


def returned(annotation: object, found: set[type]) -> set[type]:
    """Our own classes in an annotation, and in the fields of those that are data classes."""
    for part in typing.get_args(annotation):
        returned(part, found)
    ours = isinstance(annotation, type) and annotation.__module__.startswith("everlearn")
    if ours and annotation not in found:
        found.add(annotation)
        if dataclasses.is_dataclass(annotation):
            for hint in typing.get_type_hints(annotation).values():
                returned(hint, found)
    return found


def test_what_a_memory_returns_is_in_the_reference():
    found: set[type] = set()
    for name, method in inspect.getmembers(everlearn.Memory, callable):
        if not name.startswith("_"):
            returned(typing.get_type_hints(method).get("return"), found)
    names = {kind.__name__ for kind in found}
    assert {"Answers", "Why", "Report"} <= names
    assert names <= listed(), f"not in docs/reference: {sorted(names - listed())}"


def test_what_objects_hold_and_take_is_in_the_reference():
    """Classes that no annotation of a method leads to."""
    touched = {"Answer", "Conflict", "Embedder", "Limits", "Steady", "StreamingNetwork"}
    assert touched | {"train_base"} <= listed()


def test_what_may_change_is_marked():
    page = (REFERENCE / "experimental.md").read_text("utf-8")
    assert "may change or disappear" in page
    marked = set(re.findall(r"^::: everlearn\.(?:[\w.]+\.)?(\w+)$", page, re.MULTILINE))
    assert {"StreamingNetwork", "train_base"} <= marked


@pytest.mark.parametrize("package", PACKAGES)
def test_what_a_package_exports_is_in_the_reference(package):
    exported = set(importlib.import_module(f"everlearn.{package}").__all__)
    assert exported <= listed(), f"not in docs/reference: {sorted(exported - listed())}"
