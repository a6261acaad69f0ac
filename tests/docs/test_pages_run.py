"""Every code block and command of the documentation is run, or read where it cannot be.

A page is run by a process of its own that sees exactly the packages its install lines bring.
"""

import json
import re
import shutil
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from everlearn_papers.data.catalogue import find

from everlearn import Memory
from everlearn.errors import MissingData
from tests.docs.blocks import (
    LANGUAGES,
    ROOT,
    Block,
    blocks,
    commands,
    commands_in_prose,
    output_of,
    outside_of_blocks,
    pages,
)
from tests.docs.environment import Environment, NotInstalledHere, Runner, closure, named_on
from tests.docs.photographs import fill
from tests.docs.reading import complete, read_command, read_python, runnable, words

PAGES = pages()
RUN = [
    page
    for page in PAGES
    if commands_in_prose(page) or any(b.language in ("python", "console") for b in blocks(page))
]
COCO = {
    "images": [{"id": 1, "file_name": "cup.jpg", "width": 160, "height": 160}],
    "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [10, 10, 90, 90]}],
    "categories": [{"id": 1, "name": "cup"}],
}
# What a machine may have or not; with it, the block is run.
PACKAGES = {"torch", "dask", "river", "polars", "pandas", "av"}


def named(page):
    return str(page.relative_to(ROOT))


def missing(block: Block) -> bool:
    """Whether something that the block needs is not here."""
    needs = set(re.findall(r"\w+", block.needs))
    if not needs:
        return False
    return not needs <= PACKAGES or any(find_spec(package) is None for package in needs)


def have_photographs() -> bool:
    try:
        return find("demo_photos").exists()
    except MissingData:
        return False


@pytest.fixture(scope="module")
def template(tmp_path_factory) -> dict[str, str]:
    """A folder for commands in sentences, and a copy to make it again from after each of them.

    It holds photographs, a Memory that was taught them and has erased something, a second Memory,
    photographs that were moved, annotations, and a video.
    """
    folder = tmp_path_factory.mktemp("prose") / "folder"
    folder.mkdir()
    fill(folder)
    shutil.copytree(folder / "photos", folder / "moved")
    with Memory(folder / "memory", network="basic") as memory:
        memory.teach(folder / "watch.jpg", "spare")
        memory.forget(name="spare", erase=True).receipt.save(folder / "cup.json")
        memory.teach_many(
            (path, path.parent.name) for path in sorted(folder.glob("photos/*/*.jpg"))
        )
    (folder / "labels.json").write_text(json.dumps(COCO), encoding="utf-8")
    with Memory(folder / "other", network="basic") as other:
        other.teach(folder / "pizza.jpg", "pizza")
    if find_spec("av") is not None:
        film(folder / "clips" / "cup" / "turning.mp4")
    kept = folder.parent / "kept"
    shutil.copytree(folder, kept)
    return {"template": str(kept), "folder": str(folder)}


def film(path: Path) -> None:
    """Three seconds of noise."""
    import av

    path.parent.mkdir(parents=True)
    rng = np.random.default_rng(0)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=2)
        stream.width, stream.height = 64, 48
        for _ in range(6):
            picture = rng.integers(0, 255, size=(48, 64, 3), dtype=np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode())


@pytest.fixture(scope="module")
def environments(tmp_path_factory):
    made: dict[tuple[str, ...], Environment] = {}

    def get(wanted: list[str]) -> Environment:
        if tuple(wanted) not in made:
            made[tuple(wanted)] = Environment(wanted, tmp_path_factory.mktemp("environment"))
        return made[tuple(wanted)]

    return get


@pytest.fixture(scope="module")
def runner(environments):
    made = Runner(environments(["everlearn"]))
    yield made
    made.close()


def steps_of(page: Path, template: dict[str, str]) -> list[dict[str, object]]:
    """The steps of a page that are run; the others are checked here."""
    found: list[dict[str, object]] = []
    compared = have_photographs()
    for block in blocks(page):
        if block.language in ("python", "setup"):
            if missing(block):
                read_python(block.code)
            else:
                found.append({"code": block.code, "line": block.line})
        elif block.language == "console":
            for command in commands(block):
                read_command(command)
                if runnable(command) and not missing(block):
                    shown = output_of(block, command) if block.output and compared else []
                    arguments = words(command)[1:]
                    found.append({"command": command, "arguments": arguments, "output": shown})
    for command in commands_in_prose(page):
        read_command(command)
        if page.name != "CHANGELOG.md" and runnable(command) and complete(command):
            told = {"command": command, "arguments": words(command)[1:]}
            found.append(told | template)
    return found


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_block_states_its_language(page):
    for block in blocks(page):
        assert block.language in LANGUAGES, (
            f"{named(page)}, line {block.line}: what is a {block.language!r} block? "
            f"one of {sorted(LANGUAGES)}"
        )
    prose = outside_of_blocks(page)
    typed = re.findall(
        r"^(?:    )\s*(?:\$ |everlearn |pip |python |make |curl |from |import ).*$", prose, re.M
    )
    assert not typed, f"{named(page)}: put commands and code into fenced blocks: {typed[:3]}"


@pytest.mark.slow
@pytest.mark.parametrize("page", RUN, ids=named)
def test_every_block_and_command_runs(page, tmp_path, template, environments, runner):
    steps = steps_of(page, template)
    if not steps:
        return  # everything on it was read
    try:
        environment = environments(named_on(page))
    except NotInstalledHere as package:
        pytest.skip(f"{package} is not installed")
    fill(tmp_path)
    status, printed = runner.run(environment, named(page), steps, tmp_path)
    assert status == 0, f"{named(page)}, with {named_on(page)}:\n{printed[-4000:]}"


def test_a_page_can_use_only_packages_it_installs(tmp_path, environments, runner):
    """Plots are not in [cli], so a page that draws one must name the extra."""
    page = tmp_path / "page.md"
    page.write_text("`pip install '.[cli]'`", encoding="utf-8")
    assert "matplotlib" not in closure(named_on(page))
    environment = environments(named_on(page))
    for code, works in (("import rich, PIL, everlearn", True), ("import matplotlib", False)):
        steps = [{"code": code, "line": 0}]
        status, printed = runner.run(environment, "page.md", steps, tmp_path)
        assert (status == 0) is works, printed
    assert "No module named 'matplotlib'" in printed


def test_different_output_is_detected(tmp_path, template, environments, runner):
    environment = environments(["everlearn[cli]"])
    asked = {"command": "everlearn names", "arguments": ["names"]} | template
    for shown, works in ((["nothing"], False), ([], True)):
        steps = [asked | {"output": shown}]
        status, printed = runner.run(environment, "page.md", steps, tmp_path)
        assert (status == 0) is works, printed


def test_an_unknown_command_is_detected():
    for wrong in (
        "everlearn tech photos/",
        "everlearn ask --remembr new.jpg",
        "pip install 'everlearn[everything]'",
        "make everything",
        "python -m benchmarks no_such_thing",
        "python -m benchmarks side_by_side",
        "python -m attacks no_such_thing",
        "python -m attacks.crash --no-such-option",
        "python -m benchmarks.cluster_engines --no-such-option",
        "frobnicate",
    ):
        with pytest.raises(Exception):  # noqa: B017, PT011
            read_command(wrong)
    with pytest.raises(ImportError):
        read_python("from everlearn import Nothing")
