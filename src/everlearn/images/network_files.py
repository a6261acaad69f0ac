"""Where the networks are that come with everlearn, or with the distribution everlearn-networks."""

import json
from pathlib import Path
from typing import Any

from everlearn.errors import MissingPackage

WEIGHTS = Path(__file__).parent / "weights"


def network_file(name: str) -> tuple[Path, dict[str, Any]]:
    """The ONNX file of a network, and its provenance with the digest that it must have.

    Raises
    ------
    MissingPackage
        Where it is a network of everlearn-networks, which is not installed.
    """
    provenance = WEIGHTS / f"{name}.json"
    if provenance.is_file():
        about: dict[str, Any] = json.loads(provenance.read_text("utf-8"))
        return WEIGHTS / about["file"], about
    try:
        import everlearn_networks
    except ImportError:
        raise MissingPackage(
            f"the network {name} comes with everlearn-networks, which is not installed; "
            "pip install 'everlearn[networks]'"
        ) from None
    return everlearn_networks.file(name), everlearn_networks.about(name)
