"""Bridge to Frigate: names tracked objects as sub-labels and learns from corrections.

    frigate/events                   a tracked object has a snapshot   →  asked; the name is set
                                     as its sub-label over Frigate's HTTP API
    frigate/CAMERA/LABEL/snapshot    a picture without an event        →  answered on
                                     everlearn/frigate/CAMERA/LABEL
    everlearn/frigate/correct        {"id": EVENT, "name": NAME}       →  learned, sub-label set

A sub-label changed on Frigate's own page is learned as a correction too: the last named events are
reviewed regularly, when no message waits. An unknown object gets no sub-label.

Written for the topics and addresses of Frigate 0.14 to 0.16 as documented; tested against mosquitto
and a recording of them.
"""

import json
import logging
import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote

from everlearn.errors import CannotReach, EverlearnError, InvalidParameter, MissingPackage
from everlearn.memory.answers import Answers
from everlearn.service.bridges.remote import Remote

if TYPE_CHECKING:
    from paho.mqtt.client import Client, MQTTMessage

LOG = logging.getLogger("everlearn.service")

OWN = "everlearn/frigate"
CORRECT = f"{OWN}/correct"
# Snapshots and events that may wait; more are skipped.
WAITING = 64
LARGEST = 8 * 1024 * 1024
# Number of events reviewed for corrections, and how often.
WATCHED = 200
REVIEW_SECONDS = 30.0
# Maximum length of a sub-label in Frigate.
LONGEST_SUB_LABEL = 100


class Correctable(Protocol):
    """The methods the bridge needs of a Memory or a client."""

    def ask(self, example: Any, *, top: int | None) -> Answers: ...

    def correct(self, example: Any, name: str) -> Any: ...


class Frigate:
    """Names Frigate's events until it is closed.

    Parameters
    ----------
    memory : Memory or Client
        Used by the bridge's thread only.
    address : str
        Frigate's HTTP API, such as ``http://frigate:5000``.
    host, port : str, int
        The MQTT broker that Frigate uses.
    prefix : str, default="frigate"
        Frigate's ``topic_prefix``.
    username, password : str, optional
        For the broker.
    token : str, optional
        Sent to Frigate as ``Authorization: Bearer``.
    review_seconds : float
        How often named events are reviewed for corrections.

    Attributes
    ----------
    ready : threading.Event
        Set once Frigate's messages are subscribed to.
    """

    def __init__(
        self,
        memory: Correctable,
        *,
        address: str,
        host: str,
        port: int = 1883,
        prefix: str = "frigate",
        username: str | None = None,
        password: str | None = None,
        token: str | None = None,
        review_seconds: float = REVIEW_SECONDS,
    ) -> None:
        try:
            from paho.mqtt.client import Client
            from paho.mqtt.enums import CallbackAPIVersion
        except ModuleNotFoundError:
            raise MissingPackage(
                "the bridge to Frigate needs paho-mqtt; install it with: "
                "pip install 'everlearn[mqtt]'"
            ) from None
        if not prefix or set(prefix) & set("+#"):
            raise InvalidParameter(
                f"a topic prefix must be a plain word such as 'frigate', not {prefix!r}"
            )
        self._memory = memory
        self._remote = Remote(address, (lambda: f"Bearer {token}") if token else None)
        self._prefix = prefix
        self._review_seconds = review_seconds
        # Event → the sub-label that was last set for it.
        self._named: OrderedDict[str, str] = OrderedDict()
        self._work: queue.Queue[Callable[[], None] | None] = queue.Queue(WAITING)
        self._stopping = threading.Event()
        self.ready = threading.Event()
        self._client: Client = Client(CallbackAPIVersion.VERSION2)
        self._client.reconnect_delay_set(1, 60)
        if username:
            self._client.username_pw_set(username, password)
        self._client.on_connect = self._on_connect
        self._client.on_message = self._on_message
        self._client.on_subscribe = lambda *_: self.ready.set()
        try:
            self._client.connect(host, port, keepalive=30)
        except OSError as error:
            raise CannotReach(f"no MQTT broker answers at {host}:{port}: {error}") from None
        self._worker = threading.Thread(target=self._run, name="everlearn frigate", daemon=True)
        self._worker.start()
        self._client.loop_start()

    def close(self) -> None:
        """Finish the current work and disconnect."""
        self._stopping.set()
        self._client.disconnect()
        self._client.loop_stop()
        while self._worker.is_alive():
            try:
                self._work.put(None, timeout=0.1)
            except queue.Full:
                continue
            self._worker.join(1.0)

    def _on_connect(self, client: "Client", *_: Any) -> None:
        client.subscribe(
            [(f"{self._prefix}/events", 1), (f"{self._prefix}/+/+/snapshot", 0), (CORRECT, 1)]
        )

    def _on_message(self, _client: "Client", _data: Any, message: "MQTTMessage") -> None:
        payload = bytes(message.payload)
        if not payload or len(payload) > LARGEST:
            return
        if message.topic.endswith("/snapshot"):
            if not message.retain:
                camera, label = message.topic.removeprefix(f"{self._prefix}/").split("/")[:2]
                self._queue(lambda: self._answer_snapshot(camera, label, payload))
            return
        try:
            said = json.loads(payload)
        except (ValueError, RecursionError):
            LOG.warning("a message on %s is not JSON and is skipped", message.topic)
            return
        if not isinstance(said, dict):
            return
        if message.topic == CORRECT:
            self._queue(lambda: self._correct(str(said["id"]), str(said["name"])))
        else:
            self._queue(lambda: self._name_event(said))

    def _queue(self, work: Callable[[], None]) -> None:
        try:
            self._work.put_nowait(work)
        except queue.Full:
            LOG.warning("Frigate sends more than can be processed; one message is skipped")

    def _run(self) -> None:
        review_due = time.monotonic() + self._review_seconds
        while not self._stopping.is_set():
            try:
                work = self._work.get(timeout=max(0.0, review_due - time.monotonic()))
            except queue.Empty:
                work = self._review
                review_due = time.monotonic() + self._review_seconds
            if work is None:
                return
            try:
                work()
            except (EverlearnError, KeyError, TypeError, ValueError, AttributeError) as error:
                LOG.warning("a message of Frigate could not be processed: %s", error)

    def _name_event(self, event: dict[str, Any]) -> None:
        after = event["after"]
        number = str(after["id"])
        # The first snapshot, and the best one after the object has left.
        due = event.get("type") == "end" or number not in self._named
        if not due or not after.get("has_snapshot") or after.get("false_positive"):
            return
        given = _sub_label(after)
        if given and given != self._named.get(number):
            # Already named by a person, or by another recogniser of Frigate.
            return
        answers = self._memory.ask(self._snapshot(number), top=1)
        facts = {"id": number, "camera": after.get("camera"), "label": after.get("label")}
        self._publish(f"{OWN}/answer", facts | _answer_facts(answers))
        if answers and not answers.unknown:
            self._set_sub_label(number, answers[0].name, answers[0].probability)

    def _answer_snapshot(self, camera: str, label: str, picture: bytes) -> None:
        answers = self._memory.ask(picture, top=1)
        facts = {"camera": camera, "label": label}
        self._publish(f"{OWN}/{camera}/{label}", facts | _answer_facts(answers), retain=True)

    def _correct(self, number: str, name: str) -> None:
        self._memory.correct(self._snapshot(number), name)
        self._set_sub_label(number, name, 1.0)

    def _review(self) -> None:
        """Learn from events whose sub-label was changed since the bridge set it."""
        for number, ours in list(self._named.items()):
            if self._stopping.is_set() or not self._work.empty():
                return
            try:
                given = _sub_label(self._remote.json(f"api/events/{quote(number)}"))
            except CannotReach:
                # Frigate has deleted the event, or is restarting.
                continue
            if given and given != ours:
                self._memory.correct(self._snapshot(number), given)
                self._named[number] = given

    def _snapshot(self, number: str) -> bytes:
        return self._remote.image(f"api/events/{quote(number)}/snapshot.jpg?crop=1&quality=95")

    def _set_sub_label(self, number: str, name: str, probability: float) -> None:
        label = name[:LONGEST_SUB_LABEL]
        score = min(max(round(probability, 4), 0.0001), 1.0)
        said = {"subLabel": label, "subLabelScore": score}
        self._remote.json(f"api/events/{quote(number)}/sub_label", said)
        self._named[number] = label
        self._named.move_to_end(number)
        while len(self._named) > WATCHED:
            self._named.popitem(last=False)

    def _publish(self, topic: str, said: dict[str, Any], *, retain: bool = False) -> None:
        self._client.publish(topic, json.dumps(said, ensure_ascii=False), qos=1, retain=retain)


def _answer_facts(answers: Answers) -> dict[str, Any]:
    best = answers[0] if answers else None
    return {
        "name": best.name if best and not answers.unknown else None,
        "probability": best.probability if best else None,
    }


def _sub_label(event: dict[str, Any]) -> str | None:
    """The name only; Frigate writes a string over HTTP, and a string and a score over MQTT."""
    given = event.get("sub_label")
    if isinstance(given, list):
        given = given[0] if given else None
    return str(given) if given else None
