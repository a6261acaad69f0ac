"""The command that starts the service."""

import contextlib
import ipaddress
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from everlearn.cli.context import (
    cannot_listen,
    image_limits,
    keep_images,
    network,
    require_address_space,
    with_image_limits,
)
from everlearn.cli.output import as_json, notify, print_result, say
from everlearn.errors import InvalidParameter, MissingPackage
from everlearn.memory.memory import Memory
from everlearn.memory.storage.locations import is_address

if TYPE_CHECKING:
    from everlearn.service.served import Service

LOOPBACK = "127.0.0.1"


@click.command()
@click.option("--host", default=LOOPBACK, show_default=True, help="Address to listen on.")
@click.option(
    "--port", default=8737, show_default=True, type=click.IntRange(1, 65_535), help="Port."
)
@click.option(
    "--token",
    envvar="EVERLEARN_TOKEN",
    show_envvar=True,
    help="Token that clients must send; by default a new one at every start.",
)
@click.option(
    "--add-memory",
    "added",
    multiple=True,
    metavar="NAME=FOLDER",
    help="Serve another Memory, a folder or an address, under this name; may be repeated.",
)
@click.option("--also", multiple=True, hidden=True, help="As --add-memory, which it was called.")
@click.option(
    "--allow-host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="Host name that clients may use for this machine; may be repeated.",
)
@click.option(
    "--trust-ingress",
    "ingress",
    metavar="ADDRESS",
    help="Accept requests without a token from Home Assistant's supervisor at this address, for "
    "the users it has authenticated.",
)
@click.option(
    "--webhook",
    "webhooks",
    multiple=True,
    metavar="URL",
    help="Post events to this address, signed with the secret in EVERLEARN_WEBHOOK_SECRET; "
    "may be repeated.",
)
@click.option(
    "--mqtt",
    metavar="HOST[:PORT]",
    help="Publish to this MQTT broker, for Home Assistant; credentials in EVERLEARN_MQTT_USER and "
    "EVERLEARN_MQTT_PASSWORD.",
)
@click.option("--mqtt-tls", is_flag=True, help="Use TLS for the connection to the broker.")
@click.option("--mqtt-name", metavar="NAME", help="Name of this service on the broker.")
@click.option(
    "--certificate",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Serve HTTPS with this certificate (PEM).",
)
@click.option(
    "--key",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="The key of the certificate (PEM).",
)
@click.option(
    "--log", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Log as."
)
@click.option("-v", "--verbose", is_flag=True, help="Log every request.")
@keep_images
@with_image_limits
@as_json
@click.pass_context
def serve(
    ctx: click.Context,
    host: str,
    port: int,
    token: str | None,
    added: tuple[str, ...],
    also: tuple[str, ...],
    hosts: tuple[str, ...],
    ingress: str | None,
    webhooks: tuple[str, ...],
    mqtt: str | None,
    mqtt_tls: bool,
    mqtt_name: str | None,
    certificate: Path | None,
    key: Path | None,
    log: str,
    verbose: bool,
) -> None:
    """Start the service: a page with a camera, and an HTTP API."""
    try:
        from everlearn.service.server import configure_log, make_server
        from everlearn.service.settings import Settings, new_token
    except ModuleNotFoundError as error:
        raise MissingPackage(
            f"serve needs {error.name}; install it with: pip install 'everlearn[serve]'"
        ) from None
    if (certificate is None) != (key is None):
        raise click.UsageError("--certificate and --key go together")
    if not host.strip():
        raise click.UsageError(
            "--host is empty, which would mean all addresses; is a variable unset? Give 0.0.0.0 if "
            "that is meant"
        )
    if also:
        notify("--also is now called --add-memory; the old name will be removed")
    settings = Settings(
        token=token or new_token(),
        hosts=frozenset(name.lower() for name in hosts),
        ingress=ingress,
    )
    configure_log(as_json=log == "json", verbose=verbose)
    require_address_space(ctx.obj, network(ctx))
    with contextlib.ExitStack() as open_memories:
        memories = {
            name: open_memories.enter_context(
                Memory(
                    folder,
                    embedder=_network_for(folder, network(ctx), own=index > 0),
                    limits=image_limits(ctx),
                    keep_images=ctx.meta["keep_images"],
                )
            )
            for index, (name, folder) in enumerate(_served_folders(ctx.obj, added + also).items())
        }
        server = make_server(
            memories,
            settings,
            host=host,
            port=port,
            certificate=certificate,
            key=key,
        )
        listener = _listener(host, port)
        port = int(listener.getsockname()[1])
        _send_outward(open_memories, server.service, webhooks, mqtt, tls=mqtt_tls, name=mqtt_name)
        _welcome(host, port, settings.token, secure=certificate is not None)
        server.run(sockets=[listener])
    notify("Stopped. Everything that was taught is saved.")


def _network_for(folder: Any, named: str | None, *, own: bool) -> str | None:
    """The network given on the command line, unless another folder already has its own."""
    if named is None or not own:
        return named
    with Memory(folder) as memory:
        return None if memory.info()["embedder"] else named


def _listener(host: str, port: int) -> socket.socket:
    """A socket bound to the address, before the address is announced."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except (OSError, TypeError, UnicodeError) as error:  # the latter for names that are not text
        listener.close()
        raise cannot_listen(host, port, error) from None
    return listener


def _send_outward(
    closing: contextlib.ExitStack,
    service: "Service",
    webhooks: tuple[str, ...],
    mqtt: str | None,
    *,
    tls: bool,
    name: str | None,
) -> None:
    """Send events to webhooks and a broker for as long as the service runs."""
    if webhooks:
        from everlearn.service.webhooks import Webhooks

        hooks = Webhooks(webhooks, os.environ.get("EVERLEARN_WEBHOOK_SECRET", ""))
        closing.callback(hooks.close)
        service.follow(hooks)
    if mqtt:
        from everlearn.service.mqtt import Mqtt, parse_broker

        user, password = (os.environ.get(f"EVERLEARN_MQTT_{word}") for word in ("USER", "PASSWORD"))
        broker = Mqtt(
            service,
            *parse_broker(mqtt),
            username=user,
            password=password,
            tls=tls,
            device=name,
        )
        closing.callback(broker.close)
        service.follow(broker)


def _served_folders(first: Any, added: tuple[str, ...]) -> dict[str, Any]:
    folders = {"memory": first}
    for pair in added:
        name, equals, folder = pair.partition("=")
        if not (name and equals and folder):
            raise InvalidParameter(f"--add-memory takes NAME=FOLDER, not {pair!r}")
        if name in folders:
            raise InvalidParameter(f"two Memories would be called {name!r}; choose another name")
        folders[name] = Path(folder) if not is_address(folder) else folder
    return folders


def _welcome(host: str, port: int, token: str, *, secure: bool) -> None:
    shown = f"[{host}]" if ":" in host else host
    scheme = "https" if secure else "http"
    address = f"{scheme}://{shown}:{port}/"
    print_result({"address": address, "token": token})
    say(f"Open {address}?token={token}")
    say("Programs send the token as Authorization: Bearer. Ctrl-C stops.")
    if not _is_loopback(host) and not secure:
        notify(
            f"warning: {host} can be reached from other machines, and nothing sent there is "
            "encrypted, not even the token; give --certificate and --key. Browsers allow a page to "
            "use the camera only over HTTPS or on the same machine",
        )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
