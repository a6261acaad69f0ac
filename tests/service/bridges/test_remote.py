"""Addresses of other systems: credentials stay with their host, other hosts are refused."""

import socket
import threading
from functools import partial

import pytest

from everlearn.errors import CannotReach, InvalidInput, InvalidParameter
from everlearn.service import Client
from everlearn.service.bridges.remote import Remote
from everlearn.service.http_address import is_http
from everlearn.service.webhooks import Webhook
from tests.service.bridges.conftest import RED


class TestRemote:
    def test_credentials_stay_with_their_host(self, site, other_site):
        other_site.answers["/red.png"] = 200, {}, RED
        site.answers["/moved.png"] = 302, {"location": f"{other_site.address}/red.png"}, b""
        remote = Remote(site.address, lambda: "Token secret", [other_site.address])
        assert remote.image("/moved.png") == RED
        assert remote.image(f"{other_site.address}/red.png") == RED
        assert all("authorization" not in headers for _, headers, _ in other_site.heard)

    def test_a_key_in_a_header_of_its_own_stays_with_its_host_too(self, site, other_site):
        other_site.answers["/red.png"] = 200, {}, RED
        site.answers["/moved.png"] = 302, {"location": f"{other_site.address}/red.png"}, b""
        hosts = [other_site.address]
        remote = Remote(site.address, lambda: "secret", hosts, header="x-api-key")
        assert remote.image("/moved.png") == RED
        assert [headers.get("x-api-key") for _, headers, _ in site.heard] == ["secret"]
        assert all("x-api-key" not in headers for _, headers, _ in other_site.heard)

    def test_requests_use_the_given_method(self, site):
        asked = []
        site.play = lambda method, *_: (asked.append(method), (200, b"{}"))[1]
        remote = Remote(site.address)
        remote.json("a")
        remote.json("a", {"b": 1})
        remote.json("a", {"b": 1}, method="PUT")
        remote.json("a", {"b": 1}, method="DELETE")
        assert asked == ["GET", "POST", "PUT", "DELETE"]

    def test_other_hosts_are_refused(self, site, other_site):
        site.answers["/moved.png"] = 302, {"location": f"{other_site.address}/red.png"}, b""
        remote = Remote(site.address)
        for address in ("/moved.png", f"{other_site.address}/red.png", "file:///etc/passwd"):
            with pytest.raises(InvalidInput):
                remote.image(address)
        assert other_site.heard == []

    def test_what_is_not_http_is_a_named_error(self):
        def talk_nonsense():
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(b"220 not HTTP at all\r\n")

        with socket.create_server(("127.0.0.1", 0)) as server:
            threading.Thread(target=talk_nonsense, daemon=True).start()
            remote = Remote(f"http://127.0.0.1:{server.getsockname()[1]}")
            with pytest.raises(CannotReach, match="does not answer"):
                remote.json("api")

    def test_a_picture_may_be_inside_its_address(self, site):
        remote = Remote(site.address)
        assert remote.image("data:image/png;base64,aGk=") == b"hi"
        for wrong in ("data:image/png,hi", "data:image/png;base64,?", "", None):
            with pytest.raises(InvalidInput):
                remote.image(wrong)


ADDRESSES = [
    "", "x", "ftp://host", "http://", "http://[::1", "http://h:99999", "http://h:x", "http://a b/",
    "http://h\x1bi/", "http://h\x7f/", f"http://{'a' * 64}.org", "http://a..b",
]  # fmt: skip


@pytest.mark.parametrize("address", ADDRESSES)
def test_an_address_that_cannot_be_connected_to_raises_a_named_error(address):
    assert not is_http(address)
    for make in (Remote, partial(Client, token="a-token"), partial(Webhook, secret="secret")):
        with pytest.raises(InvalidParameter, match="looks like"):
            make(address)


@pytest.mark.parametrize(
    "address", ["http://h", "https://h:8443/a?b", "http://[::1]:80/", "http://bücher.example"]
)
def test_an_address_that_can_be_connected_to_is_accepted(address):
    assert is_http(address)


@pytest.mark.parametrize("address", ["/a b.png", "//[x/a.png", "/a\x01.png", "http://h:x/a.png"])
def test_an_invalid_address_of_a_picture_raises_a_named_error(site, address):
    with pytest.raises((InvalidInput, CannotReach)):
        Remote(site.address).image(address)


def test_an_answer_that_is_not_http_raises_a_named_error():
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer():
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(b"nonsense\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(CannotReach):
            Remote(f"http://127.0.0.1:{server.getsockname()[1]}").image("/a.png")
        thread.join()
