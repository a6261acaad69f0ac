"""Reads and writes named boxes in the formats COCO, YOLO and Pascal VOC.

    COCO         one JSON file: images, categories, annotations with [left, top, width, height]
    YOLO         one text file per picture: class, centre x, centre y, width, height, as shares;
                 the names in classes.txt, obj.names, or the list ``names`` of a data.yaml
    Pascal VOC   one XML file per picture: bounding boxes in pixels

Files are not trusted: sizes are bounded, XML with a document type is refused, and an invalid box is
an error that names its file. Lines that are not understood are errors, too.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from everlearn.errors import CannotRead, InvalidAnnotations, InvalidBox
from everlearn.images.decode import SUFFIXES, open_picture
from everlearn.persistence import replace_file
from everlearn.regions.boxes import MOST_BOXES, Box, as_box, rounded

FORMATS = ("coco", "voc", "yolo")
NAME_FILES = ("classes.txt", "obj.names", "names.txt", "data.yaml", "dataset.yaml")

MOST_BYTES = 256 * 1024 * 1024
MOST_BYTES_A_PICTURE = 1024 * 1024


@dataclass(frozen=True)
class Annotated:
    """One picture with the named boxes in it.

    Attributes
    ----------
    file : str
        The picture.
    width, height : int
        Size of the picture in pixels; 0 if the file does not specify it.
    things : tuple of (name, Box)
    """

    file: str
    width: int
    height: int
    things: tuple[tuple[str, Box], ...]


def read_annotations(path: str | os.PathLike[str], images: Path | None = None) -> list[Annotated]:
    """Pictures with boxes, from a COCO file or a folder of YOLO or Pascal VOC files.

    Parameters
    ----------
    path : path-like
        A JSON file (COCO), an XML file or a folder of them (Pascal VOC), or a folder of text files
        with the file of names beside or above them (YOLO).
    images : Path, optional
        Folder of the pictures; defaults to that of the annotations, or a folder ``images`` (for
        VOC ``JPEGImages``) beside them.

    Raises
    ------
    InvalidAnnotations, CannotRead
    """
    path = Path(path)
    if not path.is_dir():
        if path.suffix.lower() == ".json":
            return list(_from_coco(path, images))
        if path.suffix.lower() == ".xml":
            return [_from_voc(path, images)]
        raise CannotRead(f"{path} is not a JSON or XML file, or a folder of annotations")
    documents = sorted(path.glob("*.xml")) or sorted(path.glob("Annotations/*.xml"))
    if documents:
        return [_from_voc(document, images) for document in documents]
    return list(_from_yolo(path, images))


def write_annotations(path: str | os.PathLike[str], kind: str, found: Iterable[Annotated]) -> None:
    """Write pictures with boxes: ``kind`` is "coco" (a file), "voc" or "yolo" (a folder)."""
    if kind not in FORMATS:
        raise InvalidAnnotations(f"annotations are written as {', '.join(FORMATS)}, not {kind!r}")
    pictures = [_with_size(picture) for picture in found]
    path = Path(path)
    if kind == "coco":
        replace_file(path, json.dumps(_as_coco(pictures), indent=1).encode())
        return
    path.mkdir(parents=True, exist_ok=True)
    names = sorted({name for picture in pictures for name, _ in picture.things})
    stems = _stems(pictures)
    for picture, stem in zip(pictures, stems, strict=True):
        if kind == "voc":
            replace_file(path / f"{stem}.xml", _as_voc(picture))
        else:
            replace_file(path / f"{stem}.txt", _as_yolo(picture, names).encode())
    if kind == "yolo":
        replace_file(path / "classes.txt", "".join(f"{name}\n" for name in names).encode())


# COCO.


def _from_coco(path: Path, images: Path | None) -> Iterator[Annotated]:
    try:
        content = json.loads(_read_text(path, MOST_BYTES))
        names = {entry["id"]: str(entry["name"]) for entry in content["categories"]}
        boxes: dict[Any, list[Any]] = {entry["id"]: [] for entry in content["images"]}
        for entry in content["annotations"]:
            boxes[entry["image_id"]].append((names[entry["category_id"]], entry["bbox"]))
        for entry in content["images"]:
            width, height = int(entry["width"]), int(entry["height"])
            things = [
                (name, _box(path, _clipped(corners(*numbers), width, height), width, height))
                for name, numbers in boxes[entry["id"]]
            ]
            file = _picture_path(path.parent, images, str(entry["file_name"]), "images")
            yield Annotated(str(file), width, height, _bounded(path, things))
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        if isinstance(error, (InvalidAnnotations, CannotRead)):
            raise
        raise InvalidAnnotations(f"{path} is not a COCO file: {error!r}") from None


def corners(left: float, top: float, width: float, height: float) -> tuple[float, ...]:
    """COCO's left, top, width, height as left, top, right, bottom."""
    return left, top, left + width, top + height


def _as_coco(pictures: list[Annotated]) -> dict[str, Any]:
    names = sorted({name for picture in pictures for name, _ in picture.things})
    annotations: list[dict[str, Any]] = []
    for number, picture in enumerate(pictures, start=1):
        for name, box in picture.things:
            left, right = box.left * picture.width, box.right * picture.width
            top, bottom = box.top * picture.height, box.bottom * picture.height
            numbers = [round(value, 2) for value in (left, top, right - left, bottom - top)]
            annotations.append(
                {
                    "id": len(annotations) + 1,
                    "image_id": number,
                    "category_id": names.index(name) + 1,
                    "bbox": numbers,
                    "area": round(numbers[2] * numbers[3], 2),
                    "iscrowd": 0,
                }
            )
    return {
        "images": [
            {"id": number, "file_name": p.file, "width": p.width, "height": p.height}
            for number, p in enumerate(pictures, start=1)
        ],
        "categories": [{"id": i, "name": name} for i, name in enumerate(names, start=1)],
        "annotations": annotations,
    }


# Pascal VOC.


def _from_voc(path: Path, images: Path | None) -> Annotated:
    text = _read_text(path, MOST_BYTES_A_PICTURE)
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise InvalidAnnotations(f"{path} has a document type, which is not allowed; remove it")
    try:
        root = ElementTree.fromstring(text)
        width, height = (
            int(_required_text(root, "size/width")),
            int(_required_text(root, "size/height")),
        )
        things = []
        for thing in root.iter("object"):
            # Pascal VOC counts pixels from 1, both ends included.
            left, top, right, bottom = (
                float(_required_text(thing, f"bndbox/{side}"))
                for side in ("xmin", "ymin", "xmax", "ymax")
            )
            numbers = _clipped((left - 1.0, top - 1.0, right, bottom), width, height)
            things.append((_required_text(thing, "name"), _box(path, numbers, width, height)))
        file = _picture_path(path.parent, images, _required_text(root, "filename"), "JPEGImages")
    except (ElementTree.ParseError, ValueError) as error:
        if isinstance(error, (InvalidAnnotations, CannotRead)):
            raise
        raise InvalidAnnotations(f"{path} is not a Pascal VOC file: {error}") from None
    return Annotated(str(file), width, height, _bounded(path, things))


def _required_text(element: ElementTree.Element, name: str) -> str:
    found = element.findtext(name)
    if found is None or not found.strip():
        raise ValueError(f"it has no {name}")
    return found.strip()


def _as_voc(picture: Annotated) -> bytes:
    root = ElementTree.Element("annotation")
    ElementTree.SubElement(root, "filename").text = picture.file
    size = ElementTree.SubElement(root, "size")
    for name, value in (("width", picture.width), ("height", picture.height), ("depth", 3)):
        ElementTree.SubElement(size, name).text = str(value)
    for name, box in picture.things:
        thing = ElementTree.SubElement(root, "object")
        ElementTree.SubElement(thing, "name").text = name
        edges = ElementTree.SubElement(thing, "bndbox")
        left, top, right, bottom = box.pixels(picture.width, picture.height)
        for side, value in (
            ("xmin", left + 1),
            ("ymin", top + 1),
            ("xmax", right),
            ("ymax", bottom),
        ):
            ElementTree.SubElement(edges, side).text = str(value)
    ElementTree.indent(root)
    written: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return written


# YOLO.


def _from_yolo(folder: Path, images: Path | None) -> Iterator[Annotated]:
    labels = folder / "labels" if (folder / "labels").is_dir() else folder
    names = _yolo_names(folder)
    for path in sorted(labels.rglob("*.txt")):
        if path.name in NAME_FILES:
            continue
        things = [
            _yolo_thing(path, line, names)
            for line in _read_text(path, MOST_BYTES_A_PICTURE).splitlines()
            if line.strip()
        ]
        file = _picture_beside(path, labels, images)
        yield Annotated(str(file), 0, 0, _bounded(path, things))


def _yolo_thing(path: Path, line: str, names: list[str]) -> tuple[str, Box]:
    try:
        number, *numbers = line.split()
        if len(numbers) == 5:
            del numbers[4]  # the confidence of a detection
        across, down, width, height = (float(value) for value in numbers)
        name = dict(enumerate(names))[int(number)]
    except (ValueError, KeyError):
        raise InvalidAnnotations(
            f"{path}: {line!r:.80} is not a line of YOLO: class, centre x, centre y, width, "
            f"height; with a class from 0 to {len(names) - 1}. Polygons are not supported"
        ) from None
    edges = across - width / 2, down - height / 2, across + width / 2, down + height / 2
    return name, _box(path, _clipped(edges, 1, 1), 1, 1)


def _yolo_names(folder: Path) -> list[str]:
    for parent in (folder, folder.parent):
        for file in NAME_FILES:
            path = parent / file
            if path.is_file():
                text = _read_text(path, MOST_BYTES_A_PICTURE)
                found = _yaml_names(text) if file.endswith(".yaml") else text.splitlines()
                names = [name.strip() for name in found if name.strip()]
                if names:
                    return names
    raise InvalidAnnotations(
        f"{folder} has no known annotations: no *.xml (Pascal VOC), and no file of names "
        f"({', '.join(NAME_FILES)}) beside text files (YOLO)"
    )


def _yaml_names(text: str) -> list[str]:
    """The value of ``names`` in its two forms: a list, or a mapping from numbers to words."""
    inline = re.search(r"^names:\s*\[", text, re.M)
    end = text.find("]", inline.end()) if inline else -1
    if inline and end >= 0:
        return [word.strip().strip("'\"") for word in text[inline.end() : end].split(",")]
    block = re.search(r"^names:\s*\n((?:\s+\S.*\n?|- .*\n?)+)", text, re.M)
    lines = block[1].splitlines() if block else []
    return [re.sub(r"^\s*(?:-|\d+:)\s*", "", line).strip().strip("'\"") for line in lines]


def _as_yolo(picture: Annotated, names: list[str]) -> str:
    lines = []
    for name, (left, top, right, bottom) in picture.things:
        numbers = (left + right) / 2, (top + bottom) / 2, right - left, bottom - top
        lines.append(" ".join([str(names.index(name)), *(f"{value:.7f}" for value in numbers)]))
    return "".join(f"{line}\n" for line in lines)


def _picture_beside(path: Path, labels: Path, images: Path | None) -> Path:
    """The picture of a text file: same name, beside it or among the images."""
    inside = path.relative_to(labels).parent
    folders = [images / inside, images] if images else [path.parent]
    if images is None and labels.name == "labels":
        folders = [labels.parent / "images" / inside, path.parent]
    for folder in folders:
        for suffix in sorted(SUFFIXES):
            for file in (folder / f"{path.stem}{suffix}", folder / f"{path.stem}{suffix.upper()}"):
                if file.is_file():
                    return file
    raise CannotRead(f"there is no picture for {path}; give their folder with --images FOLDER")


# Shared helpers.


def _read_text(path: Path, most: int) -> str:
    try:
        with open(path, "rb") as file:
            data = file.read(most + 1)
    except OSError as error:
        raise CannotRead(f"{path} cannot be read: {error.strerror}") from None
    if len(data) > most:
        raise InvalidAnnotations(f"{path} has more than {most:,} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidAnnotations(f"{path} is not text in UTF-8") from None


def _picture_path(beside: Path, images: Path | None, name: str, usual: str) -> Path:
    """The picture of an annotation, in ``images`` if given, else beside it or in ``usual``."""
    if images is not None:
        candidates = [images / name, images / Path(name).name]
    else:
        candidates = [beside / name, beside / usual / name, beside.parent / usual / name]
    for file in candidates:
        if os.path.isfile(file):
            return file
    raise CannotRead(f"the picture {name} is none of {', '.join(map(str, candidates))}")


def _clipped(numbers: Iterable[float], width: float, height: float) -> list[float]:
    """Clip edges to the picture if they are about a pixel outside, as some tools write them.

    Edges farther outside stay as they are, and :func:`as_box` refuses them.
    """
    left, top, right, bottom = (float(number) for number in numbers)
    slack_x, slack_y = max(1.5, 0.01 * width), max(1.5, 0.01 * height)
    if width == height == 1:
        slack_x = slack_y = 0.01
    if left >= -slack_x and right <= width + slack_x:
        left, right = max(left, 0.0), min(right, float(width))
    if top >= -slack_y and bottom <= height + slack_y:
        top, bottom = max(top, 0.0), min(bottom, float(height))
    return [left, top, right, bottom]


def _box(path: Path, numbers: list[float], width: int, height: int) -> Box:
    if width < 1 or height < 1:
        raise InvalidAnnotations(f"{path}: a picture of {width} x {height} pixels")
    try:
        if max(numbers) <= 1.0 and (width, height) != (1, 1):
            # A box of one pixel in the corner, which as_box would read as shares.
            shares = (n / side for n, side in zip(numbers, (width, height) * 2, strict=True))
            return rounded(as_box(tuple(shares), width, height))
        return as_box(numbers, width, height)
    except InvalidBox as error:
        raise InvalidAnnotations(f"{path}: {error}") from None


def _bounded(path: Path, things: list[tuple[str, Box]]) -> tuple[tuple[str, Box], ...]:
    if len(things) > MOST_BOXES:
        raise InvalidAnnotations(f"{path}: a picture has at most {MOST_BOXES} boxes")
    return tuple(things)


def _with_size(picture: Annotated) -> Annotated:
    if picture.width and picture.height:
        return picture
    width, height = open_picture(picture.file).size
    return Annotated(picture.file, width, height, picture.things)


def _stems(pictures: list[Annotated]) -> list[str]:
    """A file name for every picture; numbered if two pictures have the same."""
    used: dict[str, int] = {}
    stems = []
    for picture in pictures:
        stem = Path(picture.file).stem or "picture"
        used[stem] = used.get(stem, 0) + 1
        stems.append(stem if used[stem] == 1 else f"{stem}-{used[stem]}")
    return stems
