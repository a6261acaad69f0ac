"""Requests that are refused."""

import http.client
import json
import socket
from urllib.parse import urlsplit

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.websockets import WebSocketDisconnect

from everlearn.errors import InvalidParameter
from everlearn.service import Settings
from everlearn.service.api.failures import MEANINGS
from tests.service.conftest import ADDRESS, TOKEN, listening, picture

DOCUMENTED = {200, *MEANINGS}


def kind_of(answer):
    return answer.status_code, answer.json()["error"]["kind"]


@pytest.mark.parametrize("path", ["/", "/v1/names", "/metrics", "/v1/openapi.json", "/page/app.js"])
def test_everything_but_health_needs_the_token(api, path):
    for header in ("", "Bearer", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x"):
        assert kind_of(api.get(path, headers={"authorization": header})) == (401, "NotAllowed")
    assert api.get(path).status_code == 200


def test_the_printed_address_becomes_a_cookie_that_is_not_the_token(api):
    del api.headers["authorization"]
    wrong = api.get("/?token=guess", follow_redirects=False)
    assert kind_of(wrong) == (401, "NotAllowed")
    answer = api.get(f"/?token={TOKEN}", follow_redirects=False)
    path, _, key = answer.headers["location"].partition("#")
    assert (answer.status_code, path) == (303, "./")
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert TOKEN not in cookie + key
    assert api.get(f"/v1/names?{key}").status_code == 200
    assert api.get(f"/v1/names?limit=1&{key}").json() == []
    api.cookies.clear()
    assert api.get(f"/v1/names?{key}").status_code == 401


def test_the_cookie_of_one_port_does_not_open_another(api):
    del api.headers["authorization"]
    place = api.get(f"/?token={TOKEN}", follow_redirects=False).headers["location"]
    key = place.partition("#")[2]
    assert [api.get(path).status_code for path in ("/", "/api", "/page/app.js")] == [200] * 3
    for query in ("", "?page=", f"?{key}x", f"?{key}&{key}", f"?{key[:-1]}"):
        for path in ("/v1/names", "/v1/export", "/metrics"):
            assert kind_of(api.get(path + query))[0] in (401, 429)
    with pytest.raises(WebSocketDisconnect):
        api.websocket_connect("ws://127.0.0.1:8737/v1/ask/stream").__enter__()
    with api.websocket_connect(f"ws://127.0.0.1:8737/v1/ask/stream?{key}") as stream:
        stream.send_text("{}")
        assert "error" in stream.receive_json()


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost@evil.example", "", "[::1", "a:b"]
)
def test_other_hosts_are_refused(api, host):
    assert kind_of(api.get("/v1/names", headers={"host": host})) == (403, "NotAllowed")


@pytest.mark.parametrize("host", ["127.0.0.1:8737", "localhost:9", "[::1]:8737", "192.168.1.5"])
def test_addresses_and_localhost_are_hosts(api, host):
    assert api.get("/v1/names", headers={"host": host}).status_code == 200


def test_host_names_must_be_allowed(serve):
    api = serve(hosts=frozenset({"robot.local"}))
    assert api.get("/v1/names", headers={"host": "robot.local:8737"}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:3000"},
        {"origin": "https://127.0.0.1:8737"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site", "sec-fetch-mode": "no-cors"},
    ],
)
def test_other_origins_are_refused(api, headers):
    assert kind_of(api.post("/v1/undo", headers=headers)) == (403, "NotAllowed")


def test_the_origin_of_the_page_is_accepted(api):
    own = {"origin": ADDRESS, "sec-fetch-site": "same-origin"}
    answer = api.post("/v1/teach", json={"vector": [1], "name": "a"}, headers=own)
    assert answer.status_code == 200


def test_every_answer_carries_the_policy(api):
    for answer in (api.get("/v1/names"), api.get("/v1/none"), api.get("/v1/names?memory=x")):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"


def test_a_large_body_is_refused_before_and_while_it_is_read(serve):
    api = serve(body_bytes=1000)
    assert api.post("/v1/ask", content=b"x" * 1001).status_code == 413
    parts = (b"x" * 300 for _ in range(10))
    assert api.post("/v1/ask", content=parts).status_code == 413
    assert api.post("/v1/undo", content=b"x" * 10).status_code == 409


def test_wrong_tokens_are_rate_limited_and_right_ones_are_not(serve):
    api = serve(failures=2)
    wrong = {"authorization": "Bearer wrong-wrong-wrong"}
    statuses = [api.get("/v1/names", headers=wrong).status_code for _ in range(12)]
    assert statuses[0] == 401
    assert statuses[-1] == 429
    # Behind a proxy everybody has one address: who has the token is not locked out by others.
    assert api.get("/v1/names").status_code == 200
    assert api.get(f"/?token={TOKEN}", follow_redirects=False).status_code == 303


def test_too_many_query_fields_raise_a_named_error(api):
    del api.headers["authorization"]
    fields = "&".join(f"a{number}=1" for number in range(9))
    assert kind_of(api.get(f"/?{fields}", follow_redirects=False)) == (401, "NotAllowed")


def test_too_many_requests_get_a_retry_time(serve):
    api = serve(rate=3)
    answers = [api.get("/v1/names") for _ in range(20)]
    assert answers[-1].status_code == 429
    assert answers[-1].headers["retry-after"] == "1"


def test_a_full_queue_refuses_and_changes_nothing(serve, memories):
    api = serve(waiting=1)
    served = api.service.find("home")
    import threading

    hold, begun = threading.Event(), threading.Event()

    def slow():
        begun.set()
        hold.wait(30)

    first = served.writer.submit(slow)
    begun.wait(30)
    second = served.writer.submit(lambda: None)
    try:
        assert kind_of(api.post("/v1/teach", json={"vector": [1], "name": "a"})) == (503, "TooBusy")
    finally:
        hold.set()
    first.result(30)
    second.result(30)
    assert not memories["home"].names()


def test_stopping_finishes_what_was_queued(serve, memories):
    api = serve()
    writer = api.service.find("home").writer
    done = [writer.submit(lambda n=n: memories["home"].teach([n, 1.0], "a")) for n in range(20)]
    api.service.close()
    assert all(future.result(0) for future in done)
    assert memories["home"].names()["a"].count == 20
    assert kind_of(api.post("/v1/undo")) == (503, "TooBusy")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("teach", {"vector": [1]}),
        ("teach", {"vector": [1], "image": "", "name": "a"}),
        ("teach", {"vector": ["1"], "name": "a"}),
        ("teach", {"vector": [], "name": "a"}),
        ("teach", {"vector": [[1]], "name": "a"}),
        ("teach", {"vector": [1], "name": ""}),
        ("teach", {"vector": [1], "name": "a\nb"}),
        ("teach", {"vector": [1], "name": "a" * 201}),
        ("teach", {"vector": [1], "name": "a", "path": "/etc/passwd"}),
        ("teach", {"image": "/etc/passwd", "name": "a"}),
        ("teach", {"image": "no base64!", "name": "a"}),
        ("teach", {"image": "AAAA", "name": "a"}),
        ("ask", {"vector": [1], "top": 0}),
        ("forget", {}),
        ("forget", {"what": "/etc/passwd"}),
        ("forget", {"id": 1, "name": "a"}),
        ("rename", {"old": "a"}),
        ("rename", [1]),
    ],
)
def test_invalid_requests_change_nothing(api, memories, path, body):
    answer = api.post(f"/v1/{path}", json=body)
    assert answer.status_code == 422
    assert set(answer.json()["error"]) == {"kind", "message"}
    assert memories["home"].history() == []


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[" * 100_000, b'{"vector": [NaN], "name": "a"}', b"\xff\xfe", b"null"]
)
def test_broken_json_is_refused(api, content):
    answer = api.post("/v1/teach", content=content, headers={"content-type": "application/json"})
    assert answer.status_code == 422


def test_other_content_is_refused(api):
    answer = api.post("/v1/teach", content=b"a=b", headers={"content-type": "text/plain"})
    assert answer.status_code == 415
    broken = {"content-type": "multipart/form-data; boundary=x"}
    assert api.post("/v1/teach", content=b"--y", headers=broken).status_code in (400, 422)
    twice = {"files": [("image", ("a", picture(1, 2, 3))), ("image", ("b", picture(3, 2, 1)))]}
    assert api.post("/v1/teach", data={"name": "a"}, **twice).status_code in (400, 422)


PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
KEYS = st.text(max_size=8)
NESTED = PLAIN | st.lists(PLAIN, max_size=4) | st.dictionaries(KEYS, PLAIN, max_size=4)
JSON = NESTED | st.lists(NESTED, max_size=4) | st.dictionaries(KEYS, NESTED, max_size=4)
FIELDS = st.sampled_from(["vector", "image", "name", "source", "id", "top", "erase", "old", "new"])


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    path=st.sampled_from(["teach", "ask", "correct", "forget", "would-forget", "rename", "undo"]),
    body=st.dictionaries(FIELDS, JSON, max_size=4) | JSON,
    kind=st.sampled_from(["application/json", "multipart/form-data", "image/png", "x", ""]),
    cut=st.integers(0, 200),
)
def test_hostile_bodies_get_documented_answers(api, path, body, kind, cut):
    content = json.dumps(body).encode()[: cut or None]
    answer = api.post(f"/v1/{path}", content=content, headers={"content-type": kind})
    assert answer.status_code in DOCUMENTED - {500}, answer.text
    assert "Traceback" not in answer.text


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    path=st.text(st.characters(codec="utf-8"), max_size=30),
    method=st.sampled_from(["GET", "PUT", "POST"]),
)
def test_hostile_addresses_get_documented_answers(api, path, method):
    from urllib.parse import quote

    for place in ("/page/", "/v1/thumbnails/", "/v1/"):
        answer = api.request(method, place + quote(path, safe=""), follow_redirects=False)
        assert answer.status_code in DOCUMENTED | {307} - {500}


class TestIngress:
    """Requests forwarded by Home Assistant; here they come from 127.0.0.1."""

    FORWARDED = {  # noqa: RUF012
        "host": "homeassistant.local:8123",
        "x-ingress-path": "/api/hassio_ingress/abc-DEF_1",
        "x-remote-user-id": "ann",
        "x-forwarded-for": "192.168.1.9, 172.30.32.1",
    }

    def ask(self, address, headers, path="/v1/names"):
        connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=60)
        try:
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    @pytest.fixture
    def forwarding(self, memories):
        with listening(memories, ingress="127.0.0.1") as address:
            yield address

    def test_what_the_supervisor_forwards_needs_no_token(self, forwarding):
        for path in ("/", "/?from=sidebar", "/page/app.js", "/v1/names", "/metrics"):
            status, headers, _ = self.ask(forwarding, self.FORWARDED, path)
            assert status == 200, path
            assert headers["x-frame-options"] == "SAMEORIGIN"
            assert "frame-ancestors 'self'" in headers["content-security-policy"]

    @pytest.mark.parametrize("scheme", ["http", "https"])
    def test_the_page_behind_home_assistant_is_its_own_origin(self, forwarding, scheme):
        own = self.FORWARDED | {"origin": f"{scheme}://homeassistant.local:8123"}
        assert self.ask(forwarding, own)[0] == 200
        for other in (f"{scheme}://evil.example", f"{scheme}://homeassistant.local", "null"):
            assert self.ask(forwarding, own | {"origin": other})[0] == 403
        assert self.ask(forwarding, own | {"sec-fetch-site": "cross-site"})[0] == 403

    def test_the_address_alone_is_not_enough(self, forwarding):
        local = {"host": "127.0.0.1"}
        status, headers, _ = self.ask(forwarding, local)
        assert status == 401
        assert headers["x-frame-options"] == "DENY"
        for path in ("", "/", "/api/hassio_ingress/", "/api/hassio_ingress/a/b", "//evil.example"):
            assert self.ask(forwarding, local | {"x-ingress-path": path})[0] in (401, 429)
        assert self.ask(forwarding, local | {"x-remote-user-id": "ann"})[0] in (401, 429)

    @pytest.mark.parametrize("trusted", [None, "127.0.0.2", "172.30.32.2"])
    def test_the_header_alone_is_never_enough(self, memories, trusted):
        local = self.FORWARDED | {"host": "127.0.0.1", "x-forwarded-for": "172.30.32.2"}
        with listening(memories, ingress=trusted) as address:
            assert self.ask(address, self.FORWARDED)[0] == 403
            status, headers, _ = self.ask(address, local)
            assert status == 401
            assert headers["x-frame-options"] == "DENY"
            assert self.ask(address, local | {"authorization": f"Bearer {TOKEN}"})[0] == 200

    def test_sockets_follow_the_same_rules(self, serve):
        headers = self.FORWARDED | {"authorization": ""}
        path = "ws://homeassistant.local/v1/ask/stream"
        with serve(ingress="127.0.0.1").websocket_connect(path, headers=headers) as stream:
            stream.send_text("{}")
            assert "error" in stream.receive_json()
        with pytest.raises(WebSocketDisconnect):
            serve(ingress="127.0.0.2").websocket_connect(path, headers=headers).__enter__()

    @pytest.mark.parametrize("address", ["", "supervisor", "172.30.32.0/24"])
    def test_the_ingress_setting_takes_one_address(self, address):
        with pytest.raises(InvalidParameter, match=r"172\.30\.32\.2"):
            Settings(ingress=address)


def test_a_request_with_two_lengths_is_refused_and_its_connection_closed(live, memories):
    """A proxy may take the rest of it for another request."""
    memories["home"].teach([1.0, 0.0], "a")
    bearer = f"Host: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n"
    first = f"POST /v1/undo HTTP/1.1\r\n{bearer}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"
    second = f"GET /v1/names HTTP/1.1\r\n{bearer}\r\n"
    place = urlsplit(live)
    with socket.create_connection((place.hostname, place.port), timeout=30) as connection:
        connection.sendall(f"{first}\r\n0\r\n\r\n{second}".encode())
        answers = b"".join(iter(lambda: connection.recv(65_536), b""))
    assert answers.startswith(b"HTTP/1.1 400 ")
    assert answers.count(b"HTTP/1.1") == 1
    assert list(memories["home"].names()) == ["a"]
