"""MQTT: answers and names as topics, found by Home Assistant by itself.

    everlearn/status               online | offline                          retained, a last will
    everlearn/MEMORY/answer        {"name", "probability", "time"}   retained, when it changes
    everlearn/MEMORY/names         {"count", "teachings", "names"}   retained
    everlearn/MEMORY/event         {"event", …}                              what happened
    everlearn/MEMORY/ask           ← the bytes of an image: answered on …/answer

    homeassistant/sensor/everlearn_MEMORY/…/config                           retained

The broker is lost and found again by itself; what is not sent meanwhile is the newest state, which
is sent anew. Nothing is taught over MQTT: a broker knows no token of ours.
"""

import json
import logging
import queue
import threading
import time
from typing import TYPE_CHECKING, Any

from everlearn import __version__
from everlearn.errors import CannotReach, EverlearnError, InvalidParameter, MissingPackage
from everlearn.memory.memory import Memory
from everlearn.service.served import Served, Service

if TYPE_CHECKING:
    from paho.mqtt.client import Client, MQTTMessage

LOG = logging.getLogger("everlearn.service")

STATUS = "everlearn/status"
# Home Assistant says here that it was started, and wants to be told everything again.
ARRIVED = "homeassistant/status"
# So many pictures wait to be asked about, and so many messages to be sent.
WAITING = 8
QUEUED = 1_000
LARGEST = 32 * 1024 * 1024
MOST_NAMES = 1_000
COUNTED = frozenset(
    {"taught", "corrected", "forgotten", "erased", "renamed", "undone", "redone", "named"}
)


class Mqtt:
    """A service's Memories at a broker; given to ``Events.follow``.

    Parameters
    ----------
    service : Service
    host : str
    port : int
    username, password : str, optional
    tls : bool, default=False
    """

    def __init__(
        self,
        service: Service,
        host: str,
        port: int,
        *,
        username: str | None = None,
        password: str | None = None,
        tls: bool = False,
    ) -> None:
        try:
            from paho.mqtt.client import Client
            from paho.mqtt.enums import CallbackAPIVersion
        except ModuleNotFoundError:
            raise MissingPackage(
                "--mqtt needs paho-mqtt; install it with: pip install 'everlearn[mqtt]'"
            ) from None
        if not host or not 1 <= port <= 65_535:
            raise InvalidParameter(f"a broker is HOST or HOST:PORT, not {host!r}, {port!r}")
        self._service = service
        self._pictures: queue.Queue[tuple[Served, bytes] | None] = queue.Queue(WAITING)
        self._stale: set[str] = set()
        self._wake = threading.Event()
        self._stopping = False
        self._client: Client = Client(CallbackAPIVersion.VERSION2)
        self._client.max_queued_messages_set(QUEUED)
        self._client.will_set(STATUS, "offline", qos=1, retain=True)
        self._client.reconnect_delay_set(1, 60)
        if username:
            self._client.username_pw_set(username, password)
        if tls:
            self._client.tls_set()
        self._client.on_connect = self._connected
        self._client.on_message = self._heard
        self._threads = [
            threading.Thread(target=target, name="everlearn mqtt", daemon=True)
            for target in (self._answer_pictures, self._tell_names)
        ]
        for thread in self._threads:
            thread.start()
        try:
            self._client.connect(host, port, keepalive=30)
        except OSError as error:
            self._stop()
            raise CannotReach(f"no MQTT broker answers at {host}:{port}: {error}") from None
        self._client.loop_start()

    def __call__(self, memory: str, kind: str, facts: dict[str, Any]) -> None:
        if kind == "answered":
            self._publish(f"everlearn/{memory}/answer", facts | {"time": time.time()}, retain=True)
            return
        if kind != "progress":
            self._publish(f"everlearn/{memory}/event", {"event": kind} | facts)
        if kind in COUNTED:
            self._stale.add(memory)
            self._wake.set()

    def close(self) -> None:
        """Say that the service is gone, and go."""
        self._stop()
        self._client.publish(STATUS, "offline", qos=1, retain=True).wait_for_publish(5)
        self._client.disconnect()
        self._client.loop_stop()

    def _stop(self) -> None:
        self._stopping = True
        self._wake.set()
        self._pictures.put(None)
        for thread in self._threads:
            thread.join(5)

    def _connected(self, client: "Client", *_: Any) -> None:
        client.subscribe(ARRIVED)
        for name in self._service.served:
            client.subscribe(f"everlearn/{name}/ask")
        self._introduce()

    def _introduce(self) -> None:
        """Everything a stranger needs to know; all of it retained."""
        for name in self._service.served:
            for topic, config in discovery(name):
                self._publish(topic, config, retain=True)
            self._stale.add(name)
        self._wake.set()
        self._client.publish(STATUS, "online", qos=1, retain=True)

    def _heard(self, _client: "Client", _data: Any, message: "MQTTMessage") -> None:
        if message.topic == ARRIVED:
            if message.payload == b"online":
                self._introduce()
            return
        served = self._service.served.get(message.topic.split("/")[1])
        if served is None or not message.payload or len(message.payload) > LARGEST:
            return
        try:
            self._pictures.put_nowait((served, bytes(message.payload)))
        except queue.Full:
            LOG.warning("more pictures arrive over MQTT than can be looked at; one is passed over")

    def _answer_pictures(self) -> None:
        while (picture := self._pictures.get()) is not None:
            served, image = picture
            try:
                answers = served.memory.ask(image, top=1)
            except EverlearnError as error:
                said: dict[str, Any] = {"error": type(error).__name__, "message": str(error)}
                self._publish(f"everlearn/{served.name}/event", {"event": "refused"} | said)
                continue
            best = answers[0] if answers else None
            known = best is not None and not answers.unknown
            self(
                served.name,
                "answered",
                {
                    "name": best.name if best and known else None,
                    "probability": best.probability if best else None,
                },
            )

    def _tell_names(self) -> None:
        """The names as they are now, however many changes there were meanwhile."""
        while True:
            self._wake.wait()
            if self._stopping:
                return
            self._wake.clear()
            while self._stale:
                name = self._stale.pop()
                self._publish(
                    f"everlearn/{name}/names",
                    _known(self._service.served[name].memory),
                    retain=True,
                )

    def _publish(self, topic: str, said: dict[str, Any], *, retain: bool = False) -> None:
        self._client.publish(topic, json.dumps(said, ensure_ascii=False), qos=1, retain=retain)


def discovery(memory: str) -> list[tuple[str, dict[str, Any]]]:
    """The sensors of a Memory, in the words of Home Assistant."""
    own = memory.replace(".", "_")
    shared = {
        "availability_topic": STATUS,
        "device": {
            "identifiers": [f"everlearn_{own}"],
            "name": f"everlearn {memory}",
            "manufacturer": "everlearn",
            "sw_version": __version__,
        },
        "origin": {"name": "everlearn", "sw_version": __version__},
    }
    sensors: list[tuple[str, str, str, str]] = [
        ("answer", "Sees", "mdi:eye", "{{ value_json.name if value_json.name else 'unknown' }}"),
        ("names", "Known names", "mdi:tag-multiple", "{{ value_json.count }}"),
    ]
    return [
        (
            f"homeassistant/sensor/everlearn_{own}/{part}/config",
            shared
            | {
                "name": title,
                "icon": icon,
                "unique_id": f"everlearn_{own}_{part}",
                "state_topic": f"everlearn/{memory}/{part}",
                "json_attributes_topic": f"everlearn/{memory}/{part}",
                "value_template": template,
            },
        )
        for part, title, icon, template in sensors
    ]


def parse_broker(text: str) -> tuple[str, int]:
    """HOST or HOST:PORT."""
    host, colon, port = text.rpartition(":")
    if not colon:
        return text, 1883
    if not port.isdecimal():
        raise InvalidParameter(f"a broker is HOST or HOST:PORT, not {text!r}")
    return host.strip("[]"), int(port)


def _known(memory: Memory) -> dict[str, Any]:
    names = memory.names()
    return {
        "count": len(names),
        "teachings": sum(record.count for record in names.values()),
        "names": list(names)[:MOST_NAMES],
    }
