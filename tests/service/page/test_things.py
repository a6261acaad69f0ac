"""Boxes over the picture in a real browser: drawn, tapped, dragged, taught."""

import io

import numpy as np
import pytest
from PIL import Image

from everlearn import Memory, Pixels
from everlearn.regions import region_embedder
from tests.memory.test_finding import COLOURS, SquareFinder, SquareProposer, scene, square
from tests.service.conftest import TOKEN
from tests.service.page.test_app import accessible, browser_only, see


@pytest.fixture(autouse=True)
def no_networks(monkeypatch):
    monkeypatch.setattr(region_embedder, "Proposer", SquareProposer)
    monkeypatch.setattr(region_embedder, "MainThing", SquareFinder)


@pytest.fixture
def memories(tmp_path):
    with Memory(tmp_path / "m", embedder=Pixels(size=6, colour=True), regions="things") as memory:
        for seed in range(3):
            memory.teach(scene(seed, ("red", 5 * seed, 60)), "red", box=square(5 * seed, 60))
        yield {"home": memory}


def middle(view):
    """Left edge and side of a square picture, all of which is shown in a view of four by three."""
    side = view["height"]
    return view["x"] + (view["width"] - side) / 2, side


@browser_only
def test_boxes_are_drawn_tapped_and_dragged(browse, live, memories, tmp_path):
    file = tmp_path / "both.png"
    stream = io.BytesIO()
    Image.fromarray(scene(50, ("red", 70, 60), ("blue", 10, 20))).save(stream, "PNG")
    file.write_bytes(stream.getvalue())
    page = browse(camera=False)
    page.goto(f"{live}/?token={TOKEN}")
    page.set_input_files("#files", [file])
    page.locator("#drop button[value=ask]").click()
    page.locator("#bars button").first.wait_for()
    page.get_by_role("button", name="Find things").click()
    red = page.locator(".box", has_text="red").first
    red.wait_for()
    view, box = page.locator("#view").bounding_box(), red.bounding_box()
    left, side = middle(view)
    shown = np.array([box["x"] - left, box["width"]]) / side
    assert shown == pytest.approx(np.array([70, 40]) / 120, abs=0.03)

    unknown = page.locator(".box.unknown").first
    unknown.focus()
    page.keyboard.press("Enter")
    see(page.locator("#hold")).to_have_text("Teach this box")
    page.locator("#name").fill("blue")
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    page.locator(".called", has_text="blue").wait_for()
    (taught,) = memories["home"].teachings("blue")
    assert taught.box == pytest.approx(np.array(square(10, 20)) / 120, abs=0.02)

    page.locator("#name").fill("corner")
    start = left + 0.8 * side, view["y"] + 0.1 * side
    page.mouse.move(*start)
    page.mouse.down()
    page.mouse.move(start[0] + 0.15 * side, start[1] + 0.2 * side, steps=4)
    page.mouse.up()
    page.locator(".called", has_text="corner").wait_for()
    (drawn,) = memories["home"].teachings("corner")
    assert drawn.box.left == pytest.approx(0.8, abs=0.02)
    assert drawn.box.right == pytest.approx(0.95, abs=0.02)
    assert page.problems == []


@pytest.fixture(scope="module")
def film(tmp_path_factory):
    """What the camera sees: a red square that moves."""
    frames = []
    for step in range(20):
        pixels = scene(7, ("red", 20 + step, 40)).repeat(4, axis=0).repeat(4, axis=1)
        stream = io.BytesIO()
        Image.fromarray(pixels).save(stream, "JPEG", quality=95, subsampling=0)
        frames.append(stream.getvalue())
    path = tmp_path_factory.mktemp("camera") / "squares.mjpeg"
    path.write_bytes(b"".join(frames))
    return path


@browser_only
def test_boxes_of_the_camera_are_tracks_over_one_socket(browse, live, memories):
    page = browse()
    sockets = []
    page.on("websocket", lambda socket: sockets.append(socket.url))
    page.goto(f"{live}/?token={TOKEN}")
    page.get_by_role("button", name="Use the camera").click()
    page.get_by_role("button", name="Find things").click()
    page.locator(".box", has_text="red").first.wait_for()
    accessible(page)
    assert len(sockets) == 1
    assert "/v1/find/stream" in sockets[0]
    assert not any("/v1/find?" in url for url in page.requested)

    page.locator(".box", has_text="red").first.focus()
    page.keyboard.press("Enter")
    page.locator("#name").fill("crimson")
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    page.locator(".called", has_text="crimson").wait_for()
    (taught,) = memories["home"].teachings("crimson")
    assert (taught.source, taught.box is None) == ("camera", False)
    page.get_by_role("button", name="Stop camera").click()
    see(page.locator(".boxes .box")).to_have_count(0)
    assert page.problems == []


@browser_only
def test_a_stream_that_ends_between_two_frames_is_opened_again(browse, live):
    page = browse()
    sockets = []

    def end_after_the_first_answer(socket):
        sockets.append(socket)
        server = socket.connect_to_server()
        if len(sockets) > 1:
            return

        def answer_and_close(message):
            socket.send(message)
            socket.close()

        server.on_message(answer_and_close)

    page.route_web_socket("**/v1/find/stream*", end_after_the_first_answer)
    page.goto(f"{live}/?token={TOKEN}")
    page.get_by_role("button", name="Use the camera").click()
    page.get_by_role("button", name="Find things").click()
    see(page.locator("#notice")).to_have_text("The service ended the stream of frames.")
    see(page.locator("#notice")).to_have_text("The service is back.")
    page.locator(".box", has_text="red").first.wait_for()
    assert len(sockets) == 2


PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


def touch(page, *points):
    """One finger put down at the first point, moved over the others, and lifted."""
    session = page.context.new_cdp_session(page)
    (x, y), *rest = points
    session.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [_at(x, y)]})
    for x, y in rest:
        session.send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": [_at(x, y)]})
    session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})


def _at(x, y):
    return {"x": x, "y": y}


def shown_on(page, live, file):
    """Open a picture with its things; the view it lies in."""
    page.goto(f"{live}/?token={TOKEN}")
    page.set_input_files("#files", [file])
    page.locator("#drop button[value=ask]").click()
    page.locator("#bars button").first.wait_for()
    page.get_by_role("button", name="Find things").tap()
    page.locator(".boxes .box").first.wait_for()
    return page.locator("#view").bounding_box()


@browser_only
def test_boxes_are_tapped_and_dragged_with_a_finger(browse, live, memories, tmp_path):
    file = tmp_path / "both.png"
    Image.fromarray(scene(50, ("red", 70, 60), ("blue", 10, 20))).save(file)
    page = browse(camera=False, **PHONE)
    view = shown_on(page, live, file)
    accessible(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390

    page.locator(".box.unknown").first.tap()
    see(page.locator("#name")).to_be_focused()
    page.locator("#name").fill("blue")
    page.locator("#hold").tap()
    page.locator(".called", has_text="blue").wait_for()
    (taught,) = memories["home"].teachings("blue")
    assert taught.box == pytest.approx(np.array(square(10, 20)) / 120, abs=0.02)

    page.locator("#name").fill("corner")
    (left, side), scrolled = middle(view), page.evaluate("window.scrollY")
    start = left + 0.8 * side, view["y"] + 0.1 * side
    steps = [(start[0] + 0.03 * i * side, start[1] + 0.04 * i * side) for i in range(6)]
    touch(page, *steps)
    page.locator(".called", has_text="corner").wait_for()
    (drawn,) = memories["home"].teachings("corner")
    assert drawn.box.left == pytest.approx(0.8, abs=0.02)
    assert drawn.box.right == pytest.approx(0.95, abs=0.02)
    # The finger drew a box and did not scroll the page.
    assert page.evaluate("window.scrollY") == scrolled
    assert page.problems == []


@browser_only
def test_unknown_pictures_are_the_unknown_parts(browse, live, memories, tmp_path):
    file = tmp_path / "blue.png"
    Image.fromarray(scene(50, ("blue", 10, 20))).save(file)
    page = browse(camera=False, **PHONE)
    page.goto(f"{live}/?token={TOKEN}")
    page.locator("#keep").check()
    shown_on(page, live, file)
    shown = page.locator("#strangers img").first
    shown.wait_for()
    (group, *_) = memories["home"].unknowns()
    small = Image.open(io.BytesIO(memories["home"].unknown_thumbnail(group.examples[0])))
    colour = np.asarray(small, dtype=float).mean(axis=(0, 1))
    assert np.abs(colour - COLOURS["blue"]).max() < 15
    page.locator("#strangers input").first.fill("blue")
    page.locator("#strangers button", has_text="Name").first.tap()
    page.locator(".called", has_text="blue").wait_for()
    (taught,) = memories["home"].teachings("blue")
    assert taught.box == pytest.approx(np.array(square(10, 20)) / 120, abs=0.02)
    assert page.problems == []


@browser_only
def test_a_box_is_drawn_with_the_keyboard(browse, live, memories, tmp_path):
    file = tmp_path / "both.png"
    Image.fromarray(scene(50, ("red", 70, 60))).save(file)
    page = browse(camera=False, **PHONE)
    shown_on(page, live, file)
    page.get_by_role("button", name="Draw a box").focus()
    page.keyboard.press("Enter")
    see(page.locator("#chosen")).to_be_focused()
    accessible(page)
    for key in ["ArrowLeft"] * 5 + ["Shift+ArrowLeft"] * 30 + ["Shift+ArrowDown"] * 40:
        page.keyboard.press(key)
    page.keyboard.press("Tab")
    page.locator("#name").focus()
    page.keyboard.type("strip")
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    page.locator(".called", has_text="strip").wait_for()
    (drawn,) = memories["home"].teachings("strip")
    # Five steps to the left; as narrow as one step; as low as the picture.
    assert drawn.box == pytest.approx((0.15, 0.25, 0.17, 1.0), abs=1e-4)
    assert page.problems == []
