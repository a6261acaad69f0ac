"""The data packs, found through EVERLEARN_DATA."""

import os
from pathlib import Path
from typing import Any

import numpy as np


def pack_folder(name: str) -> Path:
    folder = os.environ.get("EVERLEARN_DATA")
    if not folder:
        raise SystemExit(f"{name} is missing; set EVERLEARN_DATA to the folder with the data packs")
    return Path(folder, name)


def pack(name: str) -> Any:
    return np.load(pack_folder(name), allow_pickle=False)
