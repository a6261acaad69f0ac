"""Recognise pictures with an exported file, without everlearn.

    python ask_exported.py things.onnx cup.jpg watch.jpg

``everlearn export --with-embedder things.onnx`` writes the file. This program needs only numpy,
onnxruntime and Pillow: copy it to the device, together with the file.
"""

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime
from PIL import Image, ImageOps


def opened(path: str) -> Image.Image:
    """An upright RGB picture; transparent areas become white."""
    picture = ImageOps.exif_transpose(Image.open(path))
    if picture.has_transparency_data:
        picture = picture.convert("RGBA")
        white = Image.new("RGBA", picture.size, "white")
        picture = Image.alpha_composite(white, picture)
    return picture.convert("RGB")


def centre(picture: Image.Image, size: int, crop: float) -> Image.Image:
    """The centre of a picture, scaled to the network's input size."""
    grow = round(size / crop) / min(picture.size)
    wide, high = (round(side * grow) for side in picture.size)
    left, top = (wide - size) // 2, (high - size) // 2
    x, y = picture.width / wide, picture.height / high
    box = (left * x, top * y, (left + size) * x, (top + size) * y)
    return picture.resize((size, size), Image.Resampling.BICUBIC, box=box)


def peak_memory() -> str:
    """Peak memory of this program; getrusage would also count the program that started it."""
    status = Path("/proc/self/status")
    if not status.exists():
        return "memory use is only measured on Linux"
    lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
    return f"at most {int(lines['VmHWM'].split()[0]) / 1024:.0f} MB of memory"


def main(model: str, *files: str) -> None:
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1
    settings.enable_cpu_mem_arena = False
    session = onnxruntime.InferenceSession(model, settings, providers=["CPUExecutionProvider"])
    meta = session.get_modelmeta().custom_metadata_map
    names: list[str] = json.loads(meta["names"])
    for file in files:
        pixels = np.asarray(centre(opened(file), int(meta["size"]), float(meta["crop"])))
        _, shares, unknown, _ = session.run(None, {"pixels": pixels[None]})
        best = np.argsort(-shares[0], kind="stable")[:3]
        rest = ", ".join(f"{names[k]} {shares[0][k]:.0%}" for k in best)
        print(f"{file}  {'unknown' if unknown[0] else names[best[0]]}  ({rest})")
    print(peak_memory(), file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
