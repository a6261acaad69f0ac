"""MQTT: answers and names as topics, discovered by Home Assistant.

    everlearn/DEVICE/status                online | offline            retained, a last will
    everlearn/DEVICE/MEMORY/answer         {"name", "unknown", "probability", "frame", "time"}
                                           and "session" if there is one; retained, when it changes
    everlearn/DEVICE/MEMORY/answer/CAMERA  the same, of one camera
    everlearn/DEVICE/MEMORY/names          {"count", "teachings", "names"}           retained
    everlearn/DEVICE/MEMORY/event          {"event", …}                              what happened
    everlearn/DEVICE/MEMORY/ask            ← the bytes of an image: answered on …/answer
    everlearn/DEVICE/MEMORY/ask/CAMERA     ← the same, answered on …/answer/CAMERA

    homeassistant/sensor/everlearn_DEVICE_MEMORY/…/config                            retained

DEVICE distinguishes services at one broker; it defaults to the host's and the first Memory's name.
``frame`` is a digest of the picture that was asked about.

Replicas of one Memory in a database are one DEVICE, named after the database. Each picture on
``ask`` is answered by one of them (a shared subscription), ``event`` and ``names`` are published by
one of them (fleet.py), and the device is online as long as one of them is.

A lost broker is reconnected automatically; then the current state is sent. Nothing can be taught
over MQTT, because a broker does not check our token.
"""

import json
import logging
import queue
import re
import secrets
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from everlearn import __version__
from everlearn.errors import EverlearnError, InvalidParameter, MissingPackage, TooBusy
from everlearn.memory.memory import Memory
from everlearn.memory.storage.interface import StoredEvent
from everlearn.service.http_address import is_host
from everlearn.service.mqtt_outbox import Outbox
from everlearn.service.served import Served, Service, answer_facts

if TYPE_CHECKING:
    from paho.mqtt.client import Client, MQTTMessage

LOG = logging.getLogger("everlearn.service")

# Home Assistant publishes its start here; it then needs the full state again.
HOME_ASSISTANT_STATUS = "homeassistant/status"
# Pictures that may wait to be asked about; messages that may wait when an event is published, when
# an answer or names are, or when the full state is.
WAITING_PICTURES = 8
WAITING_MESSAGES = 1_000
WAITING_STATES = 2_000
WAITING_FULL_STATES = 4_000
# Delay before names that cannot be published now are tried again.
BUSY_SECONDS = 0.5
# Time limit for saying that the service is offline, and how often its arrival is checked.
CLOSING_SECONDS = 5.0
CLOSING_PAUSE = 0.02
LARGEST_PICTURE = 32 * 1024 * 1024
MOST_NAMES = 1_000
# Events after which the names, or their counts, may differ.
NAME_CHANGES = frozenset(
    {
        "taught", "corrected", "forgotten", "erased", "renamed", "undone", "redone", "named",
        "merged",
    }
)  # fmt: skip


class Mqtt:
    """Publishes a service's Memories at a broker; passed to ``Events.follow``.

    Parameters
    ----------
    service : Service
    host : str
    port : int
    username, password : str, optional
    tls : bool, default=False
    device : str, optional
        Distinguishes this service from others at the same broker.
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
        device: str | None = None,
    ) -> None:
        try:
            from paho.mqtt.client import Client
            from paho.mqtt.enums import CallbackAPIVersion
        except ModuleNotFoundError:
            raise MissingPackage(
                "--mqtt needs paho-mqtt; install it with: pip install 'everlearn[mqtt]'"
            ) from None
        _require_broker(host, port)
        self._service = service
        self.device = _topic_word(device) if device else _default_device(service)
        self._root = f"everlearn/{self.device}"
        self._status = f"{self._root}/status"
        self._pictures: queue.Queue[tuple[Served, str, bytes] | None] = queue.Queue(
            WAITING_PICTURES
        )
        self.key = f"mqtt {host}:{port} {self.device}"
        self._fleet = {name for name, one in service.served.items() if one.fleet is not None}
        self.consumers = [self]
        # The latest answers by topic.
        self._answers: dict[str, dict[str, Any]] = {}
        self._names_to_publish: set[str] = set()
        self._wake = threading.Event()
        self._stopping = False
        # How many pictures were not answered, and messages not published.
        self.failed = 0
        # Events dropped since the broker was last reached.
        self._dropped = 0
        self._client: Client = Client(
            CallbackAPIVersion.VERSION2, client_id=_client_id(self.device, shared=bool(self._fleet))
        )
        self._outbox = Outbox(self._client)
        self._client.will_set(self._status, "offline", qos=1, retain=True)
        self._client.reconnect_delay_set(1, 60)
        if username:
            self._client.username_pw_set(username, password)
        if tls:
            self._client.tls_set()
        self._client.on_connect = self._on_connect
        self._client.on_message = self._on_message
        self._threads = [
            threading.Thread(target=target, name="everlearn mqtt", daemon=True)
            for target in (self._answer_pictures, self._publish_names)
        ]
        for thread in self._threads:
            thread.start()
        self._broker = f"{host}:{port}"
        self._client.on_connect_fail = lambda *_: LOG.warning(
            "no MQTT broker answers at %s; retrying", self._broker
        )
        self._client.on_disconnect = self._on_disconnect
        # A broker that starts later than the service is found when it does.
        self._client.connect_async(host, port, keepalive=30)
        self._client.loop_start()

    def __call__(self, memory: str, kind: str, facts: dict[str, Any]) -> None:
        if kind == "answered":
            self._publish_answer(f"{self._root}/{memory}/answer", facts)
            return
        if kind != "progress":
            self._publish(f"{self._root}/{memory}/event", {"event": kind} | facts)
        if kind in NAME_CHANGES:
            self._publish_names_soon(memory)

    def _publish_names_soon(self, memory: str) -> None:
        self._names_to_publish.add(memory)
        self._wake.set()

    def _publish_answer(self, topic: str, facts: dict[str, Any]) -> None:
        self._answers[topic] = facts | {"time": time.time()}
        self._publish_state_of(topic, self._answers[topic])

    def gauges(self) -> list[tuple[str, str, float]]:
        """Gauges for the metrics."""
        return [("everlearn_mqtt_failed", "", self.failed)]

    def deliver(self, memory: str, event: StoredEvent) -> Callable[[], bool]:
        """Publish an event of a database; the result tells whether the broker has it."""
        topic = f"{self._root}/{memory}/event"
        told = _json({"event": event.kind, "id": event.number} | event.facts)
        sent = self._outbox.publish_within(WAITING_MESSAGES, topic, told)
        if event.kind in NAME_CHANGES:
            self._publish_names_soon(memory)

        def arrived() -> bool:
            nonlocal sent
            if sent is None:  # too many waited; the database keeps it until there is room
                sent = self._outbox.publish_within(WAITING_MESSAGES, topic, told)
            return sent is not None and sent()

        return arrived

    def close(self) -> None:
        """Publish that the service is offline, and disconnect."""
        self._stop()
        if self._client.is_connected():
            arrived = self._outbox.publish(self._status, "offline", retain=True)
            end = time.monotonic() + CLOSING_SECONDS
            while not arrived() and time.monotonic() < end:
                time.sleep(CLOSING_PAUSE)
        self._client.disconnect()
        self._client.loop_stop()

    def _stop(self) -> None:
        self._stopping = True
        self._wake.set()
        self._pictures.put(None)
        for thread in self._threads:
            thread.join(5)

    def _on_disconnect(self, *_: Any) -> None:
        if not self._stopping:
            LOG.warning("the connection to the MQTT broker at %s is lost; retrying", self._broker)

    def _on_connect(self, client: "Client", *_: Any) -> None:
        LOG.warning("connected to the MQTT broker at %s", self._broker)
        if self._dropped:
            LOG.warning("%d events were not published while it was away", self._dropped)
            self._dropped = 0
        client.subscribe(HOME_ASSISTANT_STATUS)
        if self._fleet:
            client.subscribe(self._status)
        for name in self._service.served:
            # Of the replicas that share a subscription, one gets each message.
            shared = f"$share/{self.device}/" if name in self._fleet else ""
            asked = [f"{shared}{self._root}/{name}/{end}" for end in ("ask", "ask/+")]
            client.subscribe([(topic, 0) for topic in asked])
        self._publish_state()

    def _publish_state(self) -> None:
        """Publish the full state, all of it retained, however many events wait.

        A broker that accepts connections and acknowledges nothing is sent it a few times only.
        """
        for name in self._service.served:
            for topic, config in discovery(self.device, name):
                self._publish_fully(topic, _json(config))
            self._names_to_publish.add(name)
        for topic, answer in list(self._answers.items()):
            # A restarted broker has lost its retained messages.
            self._publish_fully(topic, _json(answer))
        self._wake.set()
        self._publish_fully(self._status, "online")

    def _on_message(self, _client: "Client", _data: Any, message: "MQTTMessage") -> None:
        if message.topic == HOME_ASSISTANT_STATUS:
            if message.payload == b"online":
                self._publish_state()
            return
        if message.topic == self._status:
            if message.payload == b"offline" and not self._stopping:
                # Another replica went offline; this one is still there.
                self._publish_fully(self._status, "online")
            return
        words = message.topic.split("/")
        served = self._service.served.get(words[2]) if len(words) > 3 else None
        if served is None or not message.payload or len(message.payload) > LARGEST_PICTURE:
            return
        camera = words[4] if len(words) > 4 else ""
        try:
            self._pictures.put_nowait((served, camera, bytes(message.payload)))
        except queue.Full:
            self.failed += 1
            LOG.warning("more pictures arrive over MQTT than can be processed; one is skipped")

    def _answer_pictures(self) -> None:
        while (picture := self._pictures.get()) is not None:
            served, camera, image = picture
            try:
                self._answer(served, camera, image)
            except EverlearnError as error:
                said: dict[str, Any] = {"error": type(error).__name__, "message": str(error)}
                self._publish(f"{self._root}/{served.name}/event", {"event": "refused"} | said)
            except Exception:
                self.failed += 1
                LOG.exception("a picture from MQTT could not be answered")

    def _answer(self, served: Served, camera: str, image: bytes) -> None:
        answers = served.ask(lambda memory: memory.ask(image)).result()
        best = answers[0] if answers else None
        name = best.name if best and not answers.unknown else None
        probability = best.probability if best else None
        if camera:
            # Frames of a camera are answered together, so that the answer does not flicker.
            steady = served.combine_frames(f"mqtt/{camera}", answers)
            name, probability = steady.name, steady.probability
        facts = answer_facts(name, probability, image)
        if not camera:
            self(served.name, "answered", facts)
            return
        # Each camera has its own answer: two would alternate in one topic.
        topic = f"{self._root}/{served.name}/answer/{camera}"
        if topic not in self._answers or self._answers[topic]["name"] != name:
            self._publish_answer(topic, facts)

    def _publish_names(self) -> None:
        """Publish the current names, once for any number of changes."""
        while True:
            self._wake.wait()
            if self._stopping:
                return
            self._wake.clear()
            while self._names_to_publish and not self._stopping:
                name = self._names_to_publish.pop()
                try:
                    known = self._service.served[name].ask(_names_payload).result()
                    self._publish_state_of(f"{self._root}/{name}/names", known)
                except TooBusy:  # published when there is time
                    self._names_to_publish.add(name)
                    time.sleep(BUSY_SECONDS)
                except Exception:
                    self.failed += 1
                    LOG.exception("the names of a Memory could not be published")

    def _publish(self, topic: str, said: dict[str, Any]) -> None:
        """Publish an event, unless too many wait."""
        if self._outbox.publish_within(WAITING_MESSAGES, topic, _json(said)) is None:
            if not self._dropped:
                LOG.warning("too many events wait for the MQTT broker; the next are dropped")
            self._dropped += 1
            self.failed += 1

    def _publish_state_of(self, topic: str, said: dict[str, Any]) -> None:
        """Publish something retained; while there is no connection, it waits for ``_on_connect``.

        Only the latest is worth sending then, and it is sent however many events wait.
        """
        if self._client.is_connected():
            self._outbox.publish_within(WAITING_STATES, topic, _json(said), retain=True)

    def _publish_fully(self, topic: str, text: str) -> None:
        """Publish a part of the full state."""
        self._outbox.publish_within(WAITING_FULL_STATES, topic, text, retain=True)


def _json(said: dict[str, Any]) -> str:
    return json.dumps(said, ensure_ascii=False)


def discovery(device: str, memory: str) -> list[tuple[str, dict[str, Any]]]:
    """The sensors of a Memory, in Home Assistant's discovery format."""
    own = f"{device}_{memory}".replace(".", "_")
    shared = {
        "availability_topic": f"everlearn/{device}/status",
        "device": {
            "identifiers": [f"everlearn_{own}"],
            "name": f"everlearn {device} {memory}",
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
                "state_topic": f"everlearn/{device}/{memory}/{part}",
                "json_attributes_topic": f"everlearn/{device}/{memory}/{part}",
                "value_template": template,
            },
        )
        for part, title, icon, template in sensors
    ]


def _default_device(service: Service) -> str:
    """Host and first Memory: distinguishes two robots, and two services of one.

    Replicas of one Memory in a database get the same name.
    """
    first = next(iter(service.served.values()))
    own = Path(str(first.memory.path)).name
    return _topic_word(own if first.fleet is not None else f"{socket.gethostname()}-{own}")


def _client_id(device: str, *, shared: bool) -> str:
    """A client id; a broker allows one connection for each."""
    return f"everlearn-{device}-{secrets.token_hex(4)}" if shared else f"everlearn-{device}"


def _topic_word(word: str) -> str:
    """A word that is valid in a topic and in an id."""
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", word).strip("-")[:64]
    if not plain:
        raise InvalidParameter(f"a device name needs letters and digits; {word!r} has none")
    return plain


def parse_broker(text: str) -> tuple[str, int]:
    """The host and the port of ``HOST`` or ``HOST:PORT``."""
    host, colon, port = text.rpartition(":")
    if not colon:
        host, port = text, "1883"
    if not port.isdecimal():
        raise InvalidParameter(f"a broker must be HOST or HOST:PORT, not {text!r}")
    _require_broker(host.strip("[]"), int(port))
    return host.strip("[]"), int(port)


def _require_broker(host: str, port: int) -> None:
    if not is_host(host) or not 1 <= port <= 65_535:
        raise InvalidParameter(f"a broker must be HOST or HOST:PORT, not '{host}:{port}'")


def _names_payload(memory: Memory) -> dict[str, Any]:
    info = memory.info()
    return {
        "count": info["names"],
        "teachings": info["teachings"],
        "names": list(memory.names(limit=MOST_NAMES)),
    }
