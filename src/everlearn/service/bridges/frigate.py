"""Frigate: names for what its cameras track, as sub-labels, learned from corrections.

    frigate/events                   a tracked object has a snapshot   →  asked, and the name is set
                                     as its sub-label over Frigate's HTTP API
    frigate/CAMERA/LABEL/snapshot    a picture without an event        →  answered on
                                     everlearn/frigate/CAMERA/LABEL
    everlearn/frigate/correct        {"id": EVENT, "name": NAME}       →  learned, sub-label set

A sub-label that somebody changes in Frigate's own page is learned as a correction too: the last
events that were named are looked at again from time to time. What is unknown gets no sub-label.

Written for the topics and addresses of Frigate 0.14 to 0.16, as its documentation has them; tried
against mosquitto and a recording of them.
"""

import json
import logging
import queue
import threading
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
# Snapshots and events that may wait; more are passed over.
WAITING = 64
LARGEST = 8 * 1024 * 1024
# Events that are looked at again for corrections, and how often.
WATCHED = 200
REVIEW_SECONDS = 30.0
# Frigate takes no longer sub-label.
LONGEST_SUB_LABEL = 100


class Correctable(Protocol):
    """What the bridge needs of a Memory or of a client of one."""

    def ask(self, example: Any, *, top: int | None) -> Answers: ...

    def correct(self, example: Any, name: str) -> Any: ...


class Frigate:
    """Names Frigate's events; runs until it is closed.

    Parameters
    ----------
    memory : Memory or Client
        Used by one thread of the bridge alone.
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
        How often named events are looked at for corrections.

    Attributes
    ----------
    ready : threading.Event
        Set once the broker sends Frigate's messages.
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
                f"a topic prefix is a plain word such as 'frigate', not {prefix!r}"
            )
        self._memory = memory
        self._remote = Remote(address, (lambda: f"Bearer {token}") if token else None)
        self._prefix = prefix
        self._review_seconds = review_seconds
        # Event to the sub-label that was set for it last.
        self._named: OrderedDict[str, str] = OrderedDict()
        self._work: queue.Queue[Callable[[], None] | None] = queue.Queue(WAITING)
        self._stopping = threading.Event()
        self.ready = threading.Event()
        self._client: Client = Client(CallbackAPIVersion.VERSION2)
        self._client.reconnect_delay_set(1, 60)
        if username:
            self._client.username_pw_set(username, password)
        self._client.on_connect = self._connected
        self._client.on_message = self._heard
        self._client.on_subscribe = lambda *_: self.ready.set()
        try:
            self._client.connect(host, port, keepalive=30)
        except OSError as error:
            raise CannotReach(f"no MQTT broker answers at {host}:{port}: {error}") from None
        self._worker = threading.Thread(target=self._run, name="everlearn frigate", daemon=True)
        self._worker.start()
        self._client.loop_start()

    def close(self) -> None:
        """Finish what is being done, and go."""
        self._stopping.set()
        self._client.disconnect()
        self._client.loop_stop()
        while self._worker.is_alive():
            try:
                self._work.put(None, timeout=0.1)
            except queue.Full:
                continue
            self._worker.join(1.0)

    def _connected(self, client: "Client", *_: Any) -> None:
        client.subscribe(
            [(f"{self._prefix}/events", 1), (f"{self._prefix}/+/+/snapshot", 0), (CORRECT, 1)]
        )

    def _heard(self, _client: "Client", _data: Any, message: "MQTTMessage") -> None:
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
            LOG.warning("a message on %s is not JSON and is passed over", message.topic)
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
            LOG.warning("Frigate sends more than can be looked at; one message is passed over")

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                work = self._work.get(timeout=self._review_seconds)
            except queue.Empty:
                work = self._review
            if work is None:
                return
            try:
                work()
            except (EverlearnError, KeyError, TypeError, ValueError, AttributeError) as error:
                LOG.warning("a message of Frigate could not be answered: %s", error)

    def _name_event(self, event: dict[str, Any]) -> None:
        after = event["after"]
        number = str(after["id"])
        # The first snapshot, and the best one when the object has gone.
        due = event.get("type") == "end" or number not in self._named
        if not due or not after.get("has_snapshot") or after.get("false_positive"):
            return
        given = _sub_label(after)
        if given and given != self._named.get(number):
            # Somebody named it: a person, or another recogniser of Frigate.
            return
        answers = self._memory.ask(self._snapshot(number), top=1)
        facts = {"id": number, "camera": after.get("camera"), "label": after.get("label")}
        self._publish(f"{OWN}/answer", facts | _said(answers))
        if answers and not answers.unknown:
            self._set_sub_label(number, answers[0].name, answers[0].probability)

    def _answer_snapshot(self, camera: str, label: str, picture: bytes) -> None:
        answers = self._memory.ask(picture, top=1)
        facts = {"camera": camera, "label": label}
        self._publish(f"{OWN}/{camera}/{label}", facts | _said(answers), retain=True)

    def _correct(self, number: str, name: str) -> None:
        self._memory.correct(self._snapshot(number), name)
        self._set_sub_label(number, name, 1.0)

    def _review(self) -> None:
        """Learn where somebody gave an event another sub-label than the bridge did."""
        for number, ours in list(self._named.items()):
            if self._stopping.is_set() or not self._work.empty():
                return
            try:
                given = _sub_label(self._remote.json(f"api/events/{quote(number)}"))
            except CannotReach:
                # Frigate has deleted the event, or is being restarted: nothing to learn now.
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


def _said(answers: Answers) -> dict[str, Any]:
    best = answers[0] if answers else None
    return {
        "name": best.name if best and not answers.unknown else None,
        "probability": best.probability if best else None,
    }


def _sub_label(event: dict[str, Any]) -> str | None:
    """The name alone; Frigate writes a text over HTTP, and over MQTT a text and its score."""
    given = event.get("sub_label")
    if isinstance(given, list):
        given = given[0] if given else None
    return str(given) if given else None
