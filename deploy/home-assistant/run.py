"""Starts the service with the add-on's settings, which Home Assistant writes to a file."""

import json
import os
import secrets
import sys
from pathlib import Path

OPTIONS = Path("/data/options.json")
TOKEN = Path("/data/token")
# The address of Home Assistant's supervisor, which authenticates users and forwards their requests.
SUPERVISOR = "172.30.32.2"


def command(options: dict[str, str]) -> tuple[list[str], dict[str, str]]:
    """What is started, and the variables it needs beside."""
    words = ["everlearn", "--memory", "/data/memory", "serve", "--host", "0.0.0.0", "--log", "json"]
    words += ["--trust-ingress", SUPERVISOR]
    variables = {"EVERLEARN_TOKEN": options.get("token") or kept_token()}
    if options.get("host_name"):
        words += ["--allow-host", options["host_name"]]
    if options.get("mqtt"):
        words += ["--mqtt", options["mqtt"]]
        for option, variable in (("mqtt_user", "USER"), ("mqtt_password", "PASSWORD")):
            if options.get(option):
                variables[f"EVERLEARN_MQTT_{variable}"] = options[option]
    return words, variables


def kept_token() -> str:
    """The token that was made at the first start; it is printed to the add-on's log."""
    if not TOKEN.exists():
        TOKEN.touch(mode=0o600)
        TOKEN.write_text(secrets.token_urlsafe(24))
    token = TOKEN.read_text()
    print(f"programs send the token {token}", flush=True)
    return token


if __name__ == "__main__":
    words, variables = command(json.loads(OPTIONS.read_text()))
    program = str(Path(sys.executable).with_name("everlearn"))
    os.execve(program, words, os.environ | variables)
