"""Every public name says what it takes, what it costs, what it promises, and shows it."""

import inspect
import re

import pytest

import everlearn


@pytest.mark.parametrize("name", everlearn.__all__)
def test_a_public_name_says_everything(name):
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
