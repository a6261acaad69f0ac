"""The process that decodes one AVIF or HEIC file, with limits on its time and memory.

Run as a script by sandbox.py, never imported: it only imports Pillow, so that it starts quickly. It
reads the file from standard input and writes one line of JSON to standard output:
``{"mode", "width", "height", "orientation"}`` followed by the pixels, or ``{"error"}``.
"""

import contextlib
import io
import json
import sys


def limit(seconds: int, megabytes: int) -> None:
    """Set resource limits, after which the system kills this process, where supported."""
    try:
        import resource
    except ImportError:  # not on Windows; the parent has a timeout of its own
        return
    kind = resource.RLIMIT_DATA if sys.platform == "linux" else resource.RLIMIT_AS
    wanted = ((resource.RLIMIT_CPU, seconds), (kind, megabytes << 20), (resource.RLIMIT_CORE, 0))
    for what, most in wanted:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(what, (most, most))


def decoded(kind: str, most_pixels: int, most_side: int) -> tuple[dict[str, object], bytes]:
    from PIL import Image

    if kind == "HEIF":
        try:
            import pillow_heif
        except ImportError:
            return {"error": "missing"}, b""
        pillow_heif.options.DECODE_THREADS = 1
        pillow_heif.register_heif_opener(thumbnails=False)
    else:
        from PIL import AvifImagePlugin, features

        if not features.check("avif"):
            return {"error": "missing"}, b""
        AvifImagePlugin.DEFAULT_MAX_THREADS = 1
    image: Image.Image = Image.open(io.BytesIO(sys.stdin.buffer.read()), formats=(kind,))
    if image.width * image.height > most_pixels or max(image.size) > most_side:
        return {"error": "large", "width": image.width, "height": image.height}, b""
    held = image.getexif().get(0x0112)
    orientation = held if isinstance(held, int) and 1 <= held <= 8 else 1
    image.load()
    if image.mode not in ("RGB", "RGBA", "L", "LA"):
        image = image.convert("RGBA" if "A" in image.mode else "RGB")
    about = {"mode": image.mode, "width": image.width, "height": image.height}
    return {**about, "orientation": orientation}, image.tobytes()


def main() -> None:
    kind, *numbers = sys.argv[1:]
    seconds, megabytes, most_pixels, most_side = map(int, numbers)
    limit(seconds, megabytes)
    try:
        about, pixels = decoded(kind, most_pixels, most_side)
    except MemoryError:
        about, pixels = {"error": "memory"}, b""
    except Exception as error:
        about, pixels = {"error": "damaged", "reason": str(error) or type(error).__name__}, b""
    sys.stdout.buffer.write(json.dumps(about).encode() + b"\n")
    sys.stdout.buffer.write(pixels)


if __name__ == "__main__":
    main()
