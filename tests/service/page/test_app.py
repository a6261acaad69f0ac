"""The page in a real browser, with a camera that shows a file."""

import contextlib
import http.client
import http.server
import io
import re
import threading
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from everlearn.service import app
from tests.service.conftest import TOKEN, listening, picture
from tests.service.page.conftest import CHROMIUM

PAGE = Path(app.__file__).parent / "page"

browser_only = pytest.mark.skipif(
    CHROMIUM is None, reason="no chromium here, so the page was not tried in a browser"
)


def test_the_page_is_small_and_loads_nothing_from_elsewhere():
    texts = {file.name: file.read_text() for file in PAGE.iterdir()}
    assert sum(len(text.encode()) for text in texts.values()) < 200_000
    for name, text in texts.items():
        assert "https://" not in text, name
        assert "http://" not in text.replace("http://www.w3.org/2000/svg", ""), name
        assert "innerHTML" not in text, name
        if name.endswith(".html"):
            assert "style=" not in text, name
            assert "onclick=" not in text, name


def see(locator):
    """Wait until something is as it should be."""
    from playwright.sync_api import expect

    expect.set_options(timeout=60_000)
    return expect(locator)


@browser_only
def test_holding_the_button_teaches_and_answers_appear(browse, live, memories):
    page = browse()
    page.goto(f"{live}/?token={TOKEN}")
    assert TOKEN not in page.url
    page.get_by_role("button", name="Use the camera").click()
    evil = '<img src=x onerror="document.title=1">'
    page.locator("#name").fill(evil)
    page.locator("#verdict", has_text="Unknown").wait_for()  # the camera runs, nothing moves more
    page.locator("#hold").hover()
    page.mouse.down()
    see(page.locator("#taken")).to_have_text(re.compile("[3-9] pictures"))
    page.mouse.up()
    page.locator(".cards .called").wait_for()
    assert page.locator(".cards .called").inner_text() == evil
    assert page.title() == "everlearn"
    see(page.locator("#verdict")).to_have_text(evil)
    taught = memories["home"].names()[evil].count
    assert taught >= 3

    page.get_by_role("button", name=f"Rename {evil}").click()
    page.get_by_label("New name").fill("red scene")
    page.locator("#rename button[value=ok]").click()
    see(page.locator(".called")).to_have_text("red scene")

    page.locator("#name").fill("sunset")
    page.locator("#correct").click()
    page.locator(".called", has_text="sunset").wait_for()
    page.get_by_role("button", name="Undo").click()
    page.locator(".called", has_text="sunset").wait_for(state="detached")
    page.get_by_role("button", name="Undo").click()
    see(page.locator(".called")).to_have_text(evil)
    page.get_by_role("button", name="Undo").click()
    page.locator("#no-names").wait_for()
    assert not memories["home"].names()

    page.reload()
    page.locator("#no-names").wait_for()
    assert page.problems == []
    assert all(url.startswith((live, "blob:")) for url in page.requested)


@browser_only
def test_pictures_without_a_camera_on_a_phone(browse, live, tmp_path):
    page = browse(camera=False, viewport={"width": 360, "height": 740}, color_scheme="dark")
    page.goto(f"{live}/?token={TOKEN}")
    page.get_by_role("button", name="Use the camera").click()
    page.locator("#notice").wait_for()
    for name, colour in (("red", (200, 0, 0)), ("blue", (0, 0, 200))):
        files = []
        for shift in range(3):
            file = tmp_path / f"{name}{shift}.png"
            file.write_bytes(picture(*colour, shift=8 * shift))
            files.append(file)
        page.set_input_files("#files", files)
        page.locator("#drop-name").fill(name)
        page.locator("#drop button[value=teach]").click()
        page.locator(".called", has_text=name).wait_for()
    asked = tmp_path / "asked.png"
    asked.write_bytes(picture(205, 0, 0, shift=20))
    page.set_input_files("#files", [asked])
    page.locator("#drop button[value=ask]").click()
    page.locator("#bars button").first.wait_for()
    assert page.locator("#bars button").first.get_attribute("data-name") == "red"
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide <= 360
    page.locator(".cards img").first.wait_for()
    assert page.problems == []


COLOURS = {"red": (200, 0, 0), "green": (0, 190, 0), "blue": (0, 0, 200)}


def accessible(page):
    """Require that axe-core finds no violation."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is missing")
    found = axe.Axe().run(page).response["violations"]
    assert not found, [(v["id"], [node["html"] for node in v["nodes"]]) for v in found]


def drop(page, path):
    """Drag a file or a folder onto the page and let it go."""
    session = page.context.new_cdp_session(page)
    data = {"items": [], "files": [str(path)], "dragOperationsMask": 1}
    for kind in ("dragEnter", "dragOver", "drop"):
        session.send("Input.dispatchDragEvent", {"type": kind, "x": 200, "y": 200, "data": data})


def taught(memory, names=COLOURS):
    for name in names:
        colour = COLOURS[name]
        for shift in range(0, 24, 4):
            memory.teach(picture(*colour, shift=shift), name, source=f"{name}{shift}")


@browser_only
@pytest.mark.parametrize("look", ["light", "dark"])
def test_every_state_is_accessible(browse, live, memories, tmp_path, look):
    home = memories["home"]
    page = browse(camera=False, color_scheme=look, viewport={"width": 800, "height": 900})
    page.goto(f"{live}/?token={TOKEN}")
    page.locator("#no-names").wait_for()
    accessible(page)

    taught(home)
    assert home.ask(picture(250, 250, 40), remember=True).unknown
    home.teach(picture(204, 0, 0, shift=22), "blue")  # which the report will doubt
    page.reload()
    page.locator("#strangers img").wait_for()
    asked = tmp_path / "asked.png"
    asked.write_bytes(picture(205, 0, 0, shift=20))
    page.set_input_files("#files", [asked])
    accessible(page)
    page.locator("#drop button[value=ask]").click()
    page.locator("#bars button").first.wait_for()
    accessible(page)

    page.get_by_role("button", name="Why?").click()
    see(page.locator("#why-list img")).to_have_count(5)
    see(page.locator("#why-title")).to_have_text("Why red?")
    sources = [image.get_attribute("src") for image in page.locator("#why-list img").all()]
    assert all(re.fullmatch(r"v1/thumbnails/\d+\?page=\w+", source) for source in sources)
    accessible(page)
    page.get_by_role("button", name="Close", exact=True).click()

    page.get_by_role("button", name="How well is it known?").click()
    see(page.locator("#check-text")).to_have_text(
        re.compile(
            r"Tested one at a time, as if it had not been taught, \d+ of 19 pictures are "
            r"recognised\. Expect between \d+ % and \d+ % of new pictures like these\."
        )
    )
    see(page.locator(".found").first).to_contain_text("right: ")
    assert "looks like red" in page.locator("#doubts li").first.inner_text()
    accessible(page)
    page.locator("#doubts button").first.click()
    see(page.locator("#names .faint")).to_have_text(["6 pictures"] * 3)

    page.get_by_role("button", name="Forget red", exact=True).click()
    accessible(page)
    with page.expect_download() as receipt:
        page.get_by_role("button", name="Erase for good").click()
    assert home.verify(receipt=receipt.value.path()).problems == ()
    page.get_by_role("button", name="Forget red", exact=True).wait_for(state="detached")

    page.goto(f"{live}/api")
    page.locator("details").first.wait_for()
    page.locator("summary", has_text="/v1/ask").first.click()
    accessible(page)
    assert page.problems == []


@browser_only
def test_unknown_pictures_of_the_camera_are_kept_and_named(browse, live, memories):
    taught(memories["home"])
    memories["home"].forget(name="red")
    page = browse()
    page.goto(f"{live}/?token={TOKEN}")
    page.get_by_label("Keep pictures of what is unknown").check()
    page.get_by_role("button", name="Use the camera").click()
    page.locator("#strangers img").first.wait_for()
    page.get_by_label("Keep pictures of what is unknown").uncheck()
    page.locator("#strangers input").first.fill("red scene")
    page.locator("#strangers form button").first.click()
    page.locator(".called", has_text="red scene").wait_for()
    see(page.locator("#verdict")).to_have_text("red scene")
    assert memories["home"].names()["red scene"].count >= 1
    for _ in range(100):
        if not page.locator("#strangers li").count():
            break
        page.get_by_role("button", name="Drop").first.click()
        page.wait_for_timeout(200)
    assert memories["home"].unknowns() == []
    # The camera shows nothing new, so the last operation is the naming or the last drop.
    page.get_by_role("button", name=re.compile("^Undo: (name|drop), ")).click()
    page.locator("#strangers li").first.wait_for()
    assert memories["home"].unknowns() != []
    assert page.problems == []


@browser_only
def test_a_name_that_is_being_typed_survives_changes_of_the_groups(browse, live, memories):
    home = memories["home"]
    taught(home, ["red", "blue"])

    def keep(colour, *shifts):
        for shift in shifts:
            assert home.ask(picture(*colour, shift), remember=True).unknown

    green, pink = (0, 250, 0), (250, 0, 250)
    keep(green, 0)
    keep(pink, 0)
    first, second = (group.id for group in home.unknowns())
    page = browse(camera=False)
    page.goto(f"{live}/?token={TOKEN}")
    cards = page.locator("#strangers > li")
    see(cards).to_have_count(2)
    listing, held = re.compile(r"/v1/strangers\?"), []
    page.route(listing, lambda route: held.append(route), times=1)  # it refuses built-in methods
    # The list is asked for before the name is typed, and arrives after it.
    home.drop_unknowns(second)
    keep(green, 8, 16)
    page.evaluate("import('/page/strangers.js').then((strangers) => strangers.refreshSoon())")
    while not held:
        page.wait_for_timeout(20)
    cards.first.locator("input").fill("meadow")
    held.pop().continue_()
    see(cards).to_have_count(1)
    see(cards.locator("img")).to_have_count(3)
    assert home.unknowns()[0].id == first
    field = cards.locator("input")
    see(field).to_have_value("meadow")
    see(field).to_be_focused()
    see(field).to_have_attribute("aria-label", "Name of these 3 pictures")
    # A larger group comes first; the field keeps the focus all the same.
    keep(pink, 4, 8, 12, 16)
    page.evaluate("import('/page/strangers.js').then((strangers) => strangers.refreshSoon())")
    see(cards).to_have_count(2)
    see(cards.nth(1).locator("input")).to_be_focused()
    page.keyboard.press("Enter")
    page.locator(".called", has_text="meadow").wait_for()
    see(cards).to_have_count(1)
    assert home.names()["meadow"].count == 3
    assert page.problems == []


@browser_only
def test_dropped_folders_are_taught_and_a_second_tab_is_updated(browse, live, memories, tmp_path):
    folder = tmp_path / "things"
    for name, colour in COLOURS.items():
        (folder / name).mkdir(parents=True)
        for shift in (0, 8):
            (folder / name / f"{shift}.png").write_bytes(picture(*colour, shift=shift))
    page = browse(camera=False)
    page.goto(f"{live}/?token={TOKEN}")
    tab = browse.another(page)
    tab.goto(live)
    tab.locator("#no-names").wait_for()
    drop(page, folder)
    see(page.locator("#folders-text")).to_contain_text("6 pictures under 3 names")
    page.locator("#folders button[value=teach]").click()
    see(tab.locator("#names .faint")).to_have_text(["2 pictures"] * 3, timeout=60_000)
    assert {name: one.count for name, one in memories["home"].names().items()} == dict.fromkeys(
        COLOURS, 2
    )
    # Whoever presses it: the service knows that the folder was one operation.
    see(tab.locator("#undo")).to_have_attribute("title", re.compile("teach, 6 pictures"))
    tab.locator("#undo").click()
    tab.locator("#no-names").wait_for()
    assert memories["home"].names() == {}
    see(tab.locator("#undo")).to_be_disabled()
    drop(page, folder)
    page.locator("#folders button[value=teach]").click()
    see(tab.locator("#names .faint")).to_have_text(["2 pictures"] * 3, timeout=60_000)
    assert page.problems == []


@browser_only
def test_a_picture_is_sent_unchanged_and_correct_moves_it(browse, live, memories, tmp_path):
    home = memories["home"]
    taught(home)
    wide = np.zeros((40, 120, 3), dtype=np.uint8)
    wide[:, :30], wide[:, 30:70], wide[:, 70:] = (200, 0, 0), (0, 190, 0), (0, 20, 200)
    file = tmp_path / "wide.png"
    Image.fromarray(wide).save(file)
    home.teach(file, "green", source="garden/wide.png")
    page = browse(camera=False)
    page.goto(f"{live}/?token={TOKEN}")
    page.set_input_files("#files", [file])
    page.locator("#drop button[value=ask]").click()
    page.locator("#bars button").first.wait_for()
    said = {
        bar.get_attribute("data-name"): bar.locator(".share").inner_text()
        for bar in page.locator("#bars button").all()
    }
    expected = {one.name: f"{one.probability:.0%}".replace("%", " %") for one in home.ask(file)}
    assert said == expected

    page.locator("#name").fill("blue")
    page.locator("#correct").click()
    see(page.locator("#notice")).to_have_text("Moved from green to blue.")
    own = [one for one in home.teachings() if one.source == "garden/wide.png"]
    assert [one.name for one in own] == ["blue"]
    assert {name: one.count for name, one in home.names().items()} == {
        "red": 6, "green": 6, "blue": 7
    }  # fmt: skip

    other = tmp_path / "other.png"
    other.write_bytes(picture(10, 150, 150))
    page.set_input_files("#files", [other])
    page.locator("#drop button[value=ask]").click()
    page.locator("#name").fill("teal")
    page.locator("#correct").click()
    see(page.locator("#notice")).to_have_text("Learned: teal")
    assert [one.source for one in home.teachings("teal")] == ["other.png"]
    page.locator("#hold").click()
    see(page.locator("#notice")).to_have_text("Learned nothing new about teal")
    assert page.problems == []


@browser_only
def test_for_unknown_pictures_only_the_nearest_names_are_shown(browse, live, memories, tmp_path):
    home = memories["home"]
    taught(home)
    strange, known = tmp_path / "strange.png", tmp_path / "known.png"
    strange.write_bytes(picture(250, 250, 40))
    known.write_bytes(picture(204, 0, 0, shift=6))
    assert home.ask(strange).unknown
    assert not home.ask(known).unknown
    page = browse(camera=False)
    page.goto(f"{live}/?token={TOKEN}")
    for file, is_known in ((strange, False), (known, True)):
        page.set_input_files("#files", [file])
        page.locator("#drop button[value=ask]").click()
        see(page.locator("#verdict")).to_have_text("red" if is_known else "Unknown. What is this?")
        bars = page.locator("#bars")
        see(bars.locator("button")).to_have_count(3)
        names = [bar.get_attribute("data-name") for bar in bars.locator("button").all()]
        assert names == [one.name for one in home.ask(file)]
        assert ("%" in bars.inner_text()) == is_known
        assert ("%" in bars.evaluate("list => list.outerHTML")) == is_known
        assert page.locator("#most-like").is_visible() != is_known
        accessible(page)
    assert page.problems == []


@browser_only
@pytest.mark.parametrize("probably", [True, False])
def test_a_picture_just_above_the_threshold_is_called_probably(
    browse, live, memories, tmp_path, probably
):
    taught(memories["home"])
    file = tmp_path / "red.png"
    file.write_bytes(picture(204, 0, 0, shift=6))
    page = browse(camera=False)

    def answered(route):
        response = route.fetch()
        route.fulfill(response=response, json=response.json() | {"probably": probably})

    page.route("**/v1/ask*", answered)
    page.goto(f"{live}/?token={TOKEN}")
    page.set_input_files("#files", [file])
    page.locator("#drop button[value=ask]").click()
    see(page.locator("#verdict")).to_have_text("Probably red" if probably else "red")
    assert page.problems == []


@browser_only
def test_a_misspelled_name_is_asked_about(browse, live, memories, tmp_path):
    home = memories["home"]
    home.teach(picture(200, 0, 0), "Cardinal")
    page = browse(camera=False)
    page.goto(f"{live}/?token={TOKEN}")

    def teach(name, shift, answer=None):
        file = tmp_path / f"{shift}.png"
        file.write_bytes(picture(200, 0, 0, shift=shift))
        page.set_input_files("#files", [file])
        page.locator("#drop-name").fill(name)
        page.locator("#drop button[value=teach]").click()
        if answer is not None:
            see(page.locator("#spelling-text")).to_have_text(
                f"{name} is a new name. Did you mean Cardinal?"
            )
            accessible(page)
            page.locator(f"#spelling button[value={answer}]").click()

    def counts():
        return {name: one.count for name, one in home.names().items()}

    teach("Cardnal", 4, "similar")
    see(page.locator("#outcomes-text")).to_have_text("Learned Cardinal from 1 of 1 file.")
    assert counts() == {"Cardinal": 2}
    teach("Cardnal", 8, "cancel")
    see(page.locator("#spelling")).to_be_hidden()
    teach("Cardinals", 12, "new")
    page.locator(".called", has_text="Cardinals").wait_for()
    teach(" cardinal ", 16)
    see(page.locator("#names .faint")).to_have_text(["3 pictures", "1 picture"])
    assert counts() == {"Cardinal": 3, "Cardinals": 1}

    page.set_input_files("#files", [tmp_path / "4.png"])
    page.locator("#drop button[value=ask]").click()
    page.locator("#bars button").first.wait_for()
    page.locator("#name").fill("Cardinalls")
    page.locator("#hold").click()
    page.locator("#spelling button[value=cancel]").click()
    page.locator("#correct").click()
    page.locator("#spelling button[value=cancel]").click()
    page.get_by_role("button", name="Rename Cardinals", exact=True).click()
    page.get_by_label("New name").fill("cardinal")
    page.locator("#rename button[value=ok]").click()
    see(page.locator("#names .faint")).to_have_text(["4 pictures"])
    assert counts() == {"Cardinal": 4}
    assert page.problems == []


@browser_only
def test_the_page_works_without_camera_permission(browse, live, tmp_path):
    page = browse(allowed=False, permissions=[])
    page.goto(f"{live}/?token={TOKEN}")
    page.get_by_role("button", name="Use the camera").click()
    see(page.locator("#notice")).to_contain_text("refused")
    file = tmp_path / "red.png"
    file.write_bytes(picture(200, 0, 0))
    page.set_input_files("#files", [file])
    page.locator("#drop-name").fill("red")
    page.locator("#drop button[value=teach]").click()
    page.locator(".called", has_text="red").wait_for()


@browser_only
def test_the_page_reconnects_to_a_restarted_service(browse, memories):
    taught(memories["home"])
    page = browse()
    with listening(memories) as address:
        page.goto(f"{address}/?token={TOKEN}")
        page.get_by_role("button", name="Use the camera").click()
        page.locator("#bars button").first.wait_for()
    see(page.locator("#notice")).to_contain_text("does not answer")
    memories["home"].teach(picture(120, 120, 120), "grey")
    with listening(memories, int(address.rpartition(":")[2])):
        page.locator(".called", has_text="grey").wait_for()
        see(page.locator("#notice")).to_contain_text("is back")
        page.locator("#name").fill("scene")
        page.locator("#hold").hover()
        page.mouse.down()
        see(page.locator("#taken")).to_contain_text("picture")
        page.mouse.up()
        page.locator(".called", has_text="scene").wait_for()
        page.goto("about:blank")


@browser_only
def test_the_strictness_of_unknown_is_set_on_the_page(browse, live, memories, tmp_path):
    home = memories["home"]
    chance = np.random.default_rng(0)

    def noisy(colour):
        pixels = np.array(colour) + chance.normal(0, 60, (32, 32, 3))
        stream = io.BytesIO()
        Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).save(stream, "PNG")
        return stream.getvalue()

    for _ in range(40):
        for name, colour in COLOURS.items():
            home.teach(noisy(colour), name)
    mixed = [noisy(COLOURS["red"]) for _ in range(60)]
    home.set_accept(0.8)
    strict = [home.ask(one).unknown for one in mixed]
    home.set_accept(0.99)
    asked = [home.ask(one) for one in mixed]
    home.set_accept(0.95)
    between = [i for i, one in enumerate(asked) if strict[i] and not one.unknown]
    assert between
    file = tmp_path / "mixed.png"
    file.write_bytes(mixed[between[len(between) // 2]])
    page = browse(camera=False)
    page.goto(f"{live}/?token={TOKEN}")
    see(page.locator("#accept")).to_have_value("0.95")
    page.set_input_files("#files", [file])
    page.locator("#drop button[value=ask]").click()
    page.locator("#bars button").first.wait_for()
    page.locator("#accept").select_option("0.8")
    see(page.locator("#verdict")).to_contain_text("Unknown")
    assert home.accept == 0.8
    page.locator("#accept").select_option("0.99")
    answer = asked[between[len(between) // 2]]
    words = f"Probably {answer[0].name}" if answer.probably else answer[0].name
    see(page.locator("#verdict")).to_have_text(words)
    accessible(page)
    page.reload()
    see(page.locator("#accept")).to_have_value("0.99")
    assert page.problems == []


@browser_only
def test_each_memory_has_its_own_strictness(browse, live, memories):
    memories["garden"].set_accept(0.8)
    page = browse(camera=False)
    page.goto(f"{live}/?token={TOKEN}")
    see(page.locator("#accept")).to_have_value("0.95")
    page.get_by_label("Memory").select_option("garden")
    see(page.locator("#accept")).to_have_value("0.8")
    page.get_by_label("Memory").select_option("home")
    see(page.locator("#accept")).to_have_value("0.95")


@contextlib.contextmanager
def under_a_path(address, prefix, added=()):
    """A reverse proxy that gives a service a place below another site's root.

    At the root of that site is a page that shows the service in a frame.
    """
    target = address.removeprefix("http://")

    class Handler(http.server.BaseHTTPRequestHandler):
        def forward(self):
            if self.path == "/":
                self.send_response(200)
                self.send_header("content-type", "text/html")
                self.end_headers()
                self.wfile.write(
                    f"<link rel=icon href=data:,><iframe src='{prefix}/'></iframe>".encode()
                )
                return
            if not self.path.startswith(f"{prefix}/"):
                self.send_error(404)
                return
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            connection = http.client.HTTPConnection(target, timeout=60)
            with contextlib.closing(connection), contextlib.suppress(OSError):
                path = self.path.removeprefix(prefix)
                connection.request(self.command, path, body, dict(self.headers) | dict(added))
                answer = connection.getresponse()
                self.send_response(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in ("transfer-encoding", "connection", "date", "server"):
                        self.send_header(name, value)
                self.send_header("connection", "close")
                self.end_headers()
                while part := answer.read1(65_536):
                    self.wfile.write(part)
                    self.wfile.flush()

        do_GET = do_POST = forward  # noqa: N815

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}{prefix}"
    finally:
        server.shutdown()
        thread.join(60)
        server.server_close()


@browser_only
def test_the_page_works_below_a_path_of_another_site(browse, live, memories):
    memories["home"].teach(picture(200, 0, 0), "red")
    page = browse(camera=False)
    with under_a_path(live, "/api/hassio_ingress/abc") as place:
        page.goto(f"{place}/?token={TOKEN}")
        see(page.locator(".called")).to_have_text("red")
        assert page.url == f"{place}/"
        memories["home"].teach(picture(0, 0, 200), "blue")
        page.get_by_role("link", name="For programs").click()
        page.get_by_text("/v1/teach").first.wait_for()
        assert all(url.startswith(place) for url in page.requested)
        assert page.problems == []
        page.goto("about:blank")


@browser_only
def test_home_assistant_shows_the_page_in_a_frame_without_a_token(browse, memories, tmp_path):
    memories["home"].teach(picture(200, 0, 0), "red")
    prefix = "/api/hassio_ingress/abc"
    page = browse(camera=False)
    with (
        listening(memories, ingress="127.0.0.1") as service,
        under_a_path(service, prefix, {"x-ingress-path": prefix}) as place,
    ):
        page.goto(place.removesuffix(prefix))
        frame = page.frame_locator("iframe")
        see(frame.locator(".called")).to_have_text("red")
        file = tmp_path / "red.png"
        file.write_bytes(picture(200, 0, 0, shift=9))
        frame.locator("#files").set_input_files([file])
        frame.locator("#drop button[value=ask]").click()
        see(frame.locator("#verdict")).to_contain_text("red")
        assert page.problems == []
        page.goto("about:blank")
