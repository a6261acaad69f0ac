"""Changes made by other processes: watched, and served by replicas."""

import contextlib
import time

import pytest

from everlearn import Memory
from everlearn.memory.storage.postgres.address import parse_address
from everlearn.memory.storage.postgres.connecting import connected
from everlearn.memory.storage.postgres.watching import Watch

pytest.importorskip("fastapi", reason="fastapi is not installed: everlearn[serve]")

from starlette.testclient import TestClient

from everlearn.service import Settings, create_app

TOKEN = "a-token-only-tests-know"


@pytest.fixture
def replicas(address):
    with contextlib.ExitStack() as open_replicas:
        clients = []
        for _ in range(2):
            memory = open_replicas.enter_context(Memory(address))
            app, _ = create_app({"shop": memory}, Settings(token=TOKEN))
            headers = {"authorization": f"Bearer {TOKEN}"}
            client = TestClient(app, base_url="http://127.0.0.1:8737", headers=headers)
            clients.append(open_replicas.enter_context(client))
        yield clients


def teach(client, vector, name, **more):
    headers = {"idempotency-key": more.pop("key")} if "key" in more else {}
    body = {"vector": vector, "name": name, **more}
    return client.post("/v1/teach", json=body, headers=headers)


def test_unexpected_notifications_do_not_stop_a_watch(address):
    """Every user of the database can notify the channel."""
    parsed = parse_address(address)
    with Memory(address) as memory:
        memory.teach([1.0, 0.0], "cup")
        with contextlib.closing(Watch(parsed, (0, 0))) as watch, connected(parsed) as db:
            for payload in ("hello", "1 2", "one two three", ""):
                db.execute("SELECT pg_notify(%s, %s)", (parsed.channel, payload))
            memory.teach([0.0, 1.0], "pen")
            state = db.execute("SELECT version, tag FROM state").fetchone()
            until = time.monotonic() + 30
            while watch.stamp() != state and time.monotonic() < until:
                time.sleep(0.01)
            assert watch.stamp() == state


def test_a_replica_knows_what_another_was_taught_up_to_its_position(replicas):
    one, other = replicas
    teach(one, [1.0, 0.0, 0.0], "cup")
    done = teach(one, [0.0, 1.0, 0.0], "pen")
    after = int(done.headers["everlearn-position"])
    answer = other.post("/v1/ask", json={"vector": [0.0, 1.0, 0.1], "after": after}).json()
    assert answer["answers"][0]["name"] == "pen"


def test_a_request_repeated_at_another_replica_is_done_once(replicas):
    one, other = replicas
    sent = {"key": "the-same-key", "again": True}
    assert teach(one, [1.0, 0.0, 0.0], "cup", **sent).json() == {"new": True}
    assert teach(other, [1.0, 0.0, 0.0], "cup", **sent).json() == {"new": True}
    (name,) = other.get("/v1/names").json()
    assert name["count"] == 1
    assert teach(other, [9.0, 0.0, 0.0], "cup", **sent).status_code == 409
    renames = [
        client.post(
            "/v1/rename", json={"old": "cup", "new": "mug"}, headers={"idempotency-key": "rename-1"}
        )
        for client in replicas
    ]
    assert [answer.status_code for answer in renames] == [200, 200]
    assert renames[0].json() == renames[1].json()


def test_a_replica_reports_readiness_and_lag(replicas, address):
    one, _ = replicas
    teach(one, [1.0, 0.0, 0.0], "cup")
    assert one.get("/readyz").json() == {"status": "ready"}
    text = one.get("/metrics").text
    (line,) = [line for line in text.splitlines() if line.startswith("everlearn_lag_seconds{")]
    assert 'memory="shop"' in line
    assert 0.0 <= float(line.split()[-1]) < 60.0
