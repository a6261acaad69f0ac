"""Files and folders on the page, in a real browser: every one of them has an outcome."""

import json
import re

from everlearn.images.folders import survey
from tests.service.conftest import TOKEN, picture
from tests.service.page.test_app import accessible, browser_only, drop, see


def outcomes(page):
    """What the page says of each file, by kind."""
    found = {}
    for part in page.locator("#outcomes-parts details").all():
        if part.get_attribute("open") is None:
            part.locator("summary").click()
        part.locator("li").first.wait_for()
        kind = part.locator("summary").inner_text().partition(":")[0]
        found[kind] = {
            line.locator("code").inner_text(): line.inner_text()
            for line in part.locator("li").all()
        }
    return found


@browser_only
def test_every_dropped_file_has_an_outcome(browse, live, memories, tmp_path):
    home = memories["home"]
    folder = tmp_path / "nest"
    files = {
        "2024/05/Cardinal/a.png": picture(200, 0, 0),
        "2024/05/Cardinal/b.png": picture(200, 0, 0, shift=8),
        "Finch/c.png": picture(0, 190, 0),
        "Finch/known.png": picture(0, 190, 0, shift=8),
        "Finch/broken.png": b"\x89PNG\r\n\x1a\n broken",
        "Finch/other.png": picture(0, 0, 200),
        "Finch/notes.txt": b"words",
        ".hidden/d.png": picture(1, 1, 1),
        "loose.png": picture(2, 2, 2),
    }
    for path, data in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    home.teach(files["Finch/known.png"], "Finch")
    home.teach(files["Finch/other.png"], "Robin")
    home.teach(picture(90, 90, 0), "Cardinals")
    page = browse(camera=False)
    page.goto(f"{live}/?token={TOKEN}")
    drop(page, folder)
    see(page.locator("#folders-text")).to_contain_text("6 pictures under 2 names")
    rule = page.locator("#folders-list li").all_inner_texts()
    assert (
        "Cardinal: 2 pictures from nest/2024/05/Cardinal; Cardinal is new, did you mean Cardinals?"
        in rule
    )
    assert not any("hidden:" in line.lower() and "pictures" in line for line in rule)
    on_disk = {str(path.relative_to(tmp_path)): name for path, name in survey([folder]).files}
    accessible(page)
    page.locator("#folders button[value=teach]").click()
    see(page.locator("#outcomes-text")).to_have_text(
        "Learned 2 names from 3 of 9 files; 2 refused; 3 left out; 1 known already."
    )
    found = outcomes(page)
    accessible(page)
    assert set(found["Taught"]) | set(found["Known already"]) | set(found["Refused"]) == set(
        on_disk
    )
    assert set(found["Taught"]) == {
        "nest/2024/05/Cardinal/a.png", "nest/2024/05/Cardinal/b.png", "nest/Finch/c.png",
    }  # fmt: skip
    assert set(found["Known already"]) == {"nest/Finch/known.png"}
    assert "Robin" in found["Refused"]["nest/Finch/other.png"]
    assert set(found["Left out"]) == {"nest/Finch/notes.txt", "nest/.hidden", "nest/loose.png"}
    assert sorted(one.source for one in home.teachings("Cardinal")) == sorted(
        path for path in found["Taught"] if "Cardinal" in path
    )
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save as a list").click()
    assert len(saved.value.path().read_text().splitlines()) == 1 + 9
    page.get_by_role("button", name="Close", exact=True).click()
    see(page.locator("#outcomes")).to_be_hidden()
    assert [
        problem for problem in page.problems if "409" not in problem and "422" not in problem
    ] == []


@browser_only
def test_counts_are_correct_after_stop(browse, live, memories, tmp_path):
    folder = tmp_path / "things"
    for number in range(40):
        (folder / f"name {number:02}").mkdir(parents=True)
        (folder / f"name {number:02}" / "x.png").write_bytes(picture(5 * number, 0, 0))
    page = browse(camera=False)
    held = []
    page.route("**/v1/teach*", lambda route: hold(route, held, 3))
    page.goto(f"{live}/?token={TOKEN}")
    drop(page, folder)
    page.locator("#folders button[value=teach]").click()
    see(page.locator("#work-text")).to_contain_text("4 of 40")
    # Three are taught, and an Undo now would take back a part of the folder.
    see(page.locator("#undo")).to_have_attribute("title", re.compile("^Undo: teach, 3 pictures"))
    see(page.locator("#undo")).to_be_disabled()
    page.get_by_role("button", name="Stop", exact=True).click()
    held[0].continue_()
    see(page.locator("#outcomes-text")).to_have_text(
        "Learned 4 names from 4 of 40 files; 36 not sent."
    )
    assert len(memories["home"].names()) == 4
    see(page.locator("#undo")).to_be_enabled()


@browser_only
def test_a_folder_dropped_while_another_is_taught_waits_and_each_is_one_operation(
    browse, live, memories, tmp_path
):
    for place, green in (("first", 0), ("second", 250)):
        (tmp_path / place / place).mkdir(parents=True)
        for number in range(6):
            data = picture(40 * number, green, 0)
            (tmp_path / place / place / f"{number}.png").write_bytes(data)
    home = memories["home"]
    page = browse(camera=False)
    held = []
    released = []
    page.route("**/v1/teach*", lambda route: route.continue_() if released else held.append(route))
    page.goto(f"{live}/?token={TOKEN}")
    drop(page, tmp_path / "first")
    page.locator("#folders button[value=teach]").click()
    see(page.locator("#work-text")).to_contain_text("of 6")
    drop(page, tmp_path / "second")
    see(page.locator("#notice")).to_contain_text("follow after the ones before")
    see(page.locator("#folders")).to_be_hidden()
    released.append(True)
    for route in held:
        route.continue_()
    page.locator("#folders button[value=teach]").click()
    see(page.locator("#undo")).to_have_attribute("title", "Undo: teach, 6 pictures (second)")
    see(page.locator("#undo")).to_be_enabled()
    assert [(one.kind, one.count, one.names) for one in home.history()] == [
        ("teach", 6, ("second",)), ("teach", 6, ("first",)),
    ]  # fmt: skip
    page.locator("#undo").click()
    see(page.locator("#notice")).to_have_text("Undone: teach, 6 pictures (second)")
    assert set(home.names()) == {"first"}


@browser_only
def test_undo_is_refused_where_something_newer_was_done(browse, live, memories, tmp_path):
    home = memories["home"]
    home.teach(picture(200, 0, 0), "red")
    page = browse(camera=False)
    page.goto(f"{live}/?token={TOKEN}")
    see(page.locator("#undo")).to_have_attribute("title", "Undo: teach, 1 picture (red)")
    home.teach(picture(0, 200, 0), "green")  # by another program, which the page does not hear of
    page.locator("#undo").click()
    see(page.locator("#notice")).to_contain_text("the last one is now teach, 1 teaching (green)")
    assert set(home.names()) == {"red", "green"}
    see(page.locator("#undo")).to_have_attribute("title", "Undo: teach, 1 picture (green)")
    page.locator("#undo").click()
    see(page.locator("#notice")).to_have_text("Undone: teach, 1 picture (green)")
    assert set(home.names()) == {"red"}


def hold(route, held, after):
    """Let so many requests through; the next one waits."""
    hold.count = getattr(hold, "count", 0) + 1
    if hold.count == after + 1:
        held.append(route)
    else:
        route.continue_()


@browser_only
def test_files_that_are_not_pictures_are_listed(browse, live, tmp_path):
    page = browse(camera=False)
    page.goto(f"{live}/?token={TOKEN}")
    note = tmp_path / "note.txt"
    note.write_text("words")
    page.set_input_files("#files", [note])
    see(page.locator("#outcomes-text")).to_have_text("Learned nothing new from 1 file; 1 left out.")
    assert outcomes(page)["Left out"] == {"note.txt": "note.txt not an image"}


@browser_only
def test_a_dropped_file_that_cannot_be_read_is_reported(browse, live):
    page = browse(camera=False)
    page.goto(f"{live}/?token={TOKEN}")
    page.locator("#no-names").wait_for()
    page.evaluate(
        """() => {
            const gone = (_, refuse) => refuse(new Error("the file is gone"));
            const entry = { isFile: true, fullPath: "/x.png", name: "x.png", file: gone };
            const drop = new Event("drop", { cancelable: true });
            drop.dataTransfer = { items: [{ webkitGetAsEntry: () => entry }] };
            document.dispatchEvent(drop);
        }"""
    )
    see(page.locator("#notice")).to_have_text("the file is gone")
    assert page.problems == []


def test_the_service_names_listed_files_and_refuses_too_many(api):
    paths = ["nest/2024/Cardinal/x.jpg", "nest/.a/x.jpg", "x.jpg", "nest/Unknown/x.jpg"]
    files = [{"path": path} for path in paths]
    answer = api.post(
        "/v1/folders",
        content=json.dumps({"files": files}),
        headers={"content-type": "application/json"},
    )
    assert [(one["name"], one["image"]) for one in answer.json()] == [
        ("Cardinal", True), (None, False), (None, True), (None, True),
    ]  # fmt: skip
    many = {"files": [{"path": "x"}] * 20_001}
    assert api.post("/v1/folders", json=many).status_code == 422
