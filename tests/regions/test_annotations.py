"""Annotations in three formats, written by other tools and by everlearn."""

import json

import numpy as np
import pytest
from PIL import Image

from everlearn.errors import CannotRead, InvalidAnnotations
from everlearn.regions.annotations import Annotated, read_annotations, write_annotations
from everlearn.regions.boxes import Box


@pytest.fixture
def pictures(tmp_path):
    folder = tmp_path / "pictures"
    folder.mkdir()
    for name, size in (("a.jpg", (64, 48)), ("b.png", (100, 50))):
        Image.fromarray(np.zeros((size[1], size[0], 3), np.uint8)).save(folder / name)
    return folder


def things(pictures):
    return [
        Annotated(str(pictures / "a.jpg"), 64, 48, (("cup", Box(0.25, 0.25, 0.75, 0.5)),)),
        Annotated(
            str(pictures / "b.png"),
            100,
            50,
            (("pen", Box(0.0, 0.0, 0.1, 1.0)), ("cup", Box(0.5, 0.5, 1.0, 1.0))),
        ),
    ]


@pytest.mark.parametrize("kind", ["coco", "voc", "yolo"])
def test_annotations_survive_a_round_trip(kind, pictures, tmp_path) -> None:
    target = tmp_path / ("boxes.json" if kind == "coco" else "boxes")
    write_annotations(target, kind, things(pictures))
    found = read_annotations(target, images=pictures)
    assert [p.file for p in found] == [p.file for p in things(pictures)]
    for one, other in zip(found, things(pictures), strict=True):
        assert [name for name, _ in one.things] == [name for name, _ in other.things]
        for (_, box), (_, expected) in zip(one.things, other.things, strict=True):
            assert box == pytest.approx(expected, abs=2e-6)


def test_coco_files_of_other_tools_are_read(pictures, tmp_path) -> None:
    content = {
        "images": [{"id": 7, "file_name": "a.jpg", "width": 64, "height": 48}],
        "categories": [{"id": 3, "name": "cup"}],
        "annotations": [{"image_id": 7, "category_id": 3, "bbox": [16, 12, 32, 24]}],
    }
    file = pictures / "boxes.json"
    file.write_text(json.dumps(content))
    (found,) = read_annotations(file)
    assert found.things == (("cup", Box(0.25, 0.25, 0.75, 0.75)),)


def test_voc_counts_pixels_from_one(pictures) -> None:
    (pictures / "a.xml").write_text(
        "<annotation><filename>a.jpg</filename><size><width>64</width><height>48</height></size>"
        "<object><name>cup</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>32</xmax>"
        "<ymax>48</ymax></bndbox></object></annotation>"
    )
    (found,) = read_annotations(pictures)
    assert found.things == (("cup", Box(0.0, 0.0, 0.5, 1.0)),)


def test_yolo_with_names_in_a_yaml(pictures) -> None:
    root = pictures.parent / "set"
    (root / "images").mkdir(parents=True)
    (root / "labels").mkdir()
    (pictures / "a.jpg").rename(root / "images" / "a.jpg")
    (root / "labels" / "a.txt").write_text("1 0.5 0.5 0.5 1.0\n")
    for written in ("names: [cup, 'a pen']\n", "nc: 2\nnames:\n  0: cup\n  1: a pen\n"):
        (root / "data.yaml").write_text(written)
        (found,) = read_annotations(root)
        assert found.things == (("a pen", Box(0.25, 0.0, 0.75, 1.0)),)
        assert found.file == str(root / "images" / "a.jpg")


def test_the_confidence_of_a_yolo_detection_is_ignored(pictures) -> None:
    (pictures / "classes.txt").write_text("cup\n")
    (pictures / "a.txt").write_text("0 0.5 0.5 0.5 0.5 0.93\n")
    (found,) = read_annotations(pictures)
    assert found.things == (("cup", Box(0.25, 0.25, 0.75, 0.75)),)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.json", "[]"),
        ("a.json", "{"),
        ("a.json", '{"images": [], "categories": [], "annotations": [{"image_id": 1}]}'),
        (
            "a.json",
            '{"images": [{"id": 1, "file_name": "a.jpg", "width": 1e999, "height": 1}], '
            '"categories": [], "annotations": []}',
        ),
        ("a.xml", "<annotation>"),
        ("a.xml", '<!DOCTYPE x [<!ENTITY y "z">]><annotation/>'),
        ("a.xml", "<annotation><filename>a.jpg</filename></annotation>"),
        (
            "a.json",
            '{"images": [{"id": 1, "file_name": "a.jpg", "width": 1e999, "height": 9}], '
            '"categories": [], "annotations": []}',
        ),
    ],
)
def test_invalid_annotations_raise_a_named_error(pictures, name, content) -> None:
    (pictures / name).write_text(content)
    with pytest.raises(InvalidAnnotations):
        read_annotations(pictures / name)


@pytest.mark.parametrize(
    "line",
    [
        "5 0.5 0.5 0.1 0.1",
        "-1 0.5 0.5 0.1 0.1",
        "0 0.5 0.5",
        "0 a b c d",
        "0 0.5 0.5 0 0.1",
        "0 0.3 0.3 0.6 0.3 0.6 0.6",  # a polygon
    ],
)
def test_an_invalid_yolo_line_raises_a_named_error(pictures, line) -> None:
    (pictures / "classes.txt").write_text("cup\n")
    (pictures / "a.txt").write_text(line)
    with pytest.raises(InvalidAnnotations):
        read_annotations(pictures)


def test_a_box_outside_of_the_picture_raises_a_named_error(pictures) -> None:
    content = {
        "images": [{"id": 1, "file_name": "a.jpg", "width": 64, "height": 48}],
        "categories": [{"id": 1, "name": "cup"}],
        "annotations": [{"image_id": 1, "category_id": 1, "bbox": [60, 12, 32, 24]}],
    }
    (pictures / "boxes.json").write_text(json.dumps(content))
    with pytest.raises(InvalidAnnotations, match="outside"):
        read_annotations(pictures / "boxes.json")


def test_an_annotation_without_a_picture_raises_a_named_error(pictures) -> None:
    (pictures / "classes.txt").write_text("cup\n")
    (pictures / "missing.txt").write_text("0 0.5 0.5 0.5 0.5")
    with pytest.raises(CannotRead):
        read_annotations(pictures)
    with pytest.raises(CannotRead):
        read_annotations(pictures / "nothing")


@pytest.mark.parametrize("file", ["a" * 5000, "a\0.jpg", "../" * 2000])
def test_a_file_name_that_no_system_allows_raises_a_named_error(pictures, file) -> None:
    image = {"id": 1, "file_name": file, "width": 9, "height": 9}
    content = {"images": [image], "categories": [], "annotations": []}
    (pictures / "a.json").write_text(json.dumps(content))
    with pytest.raises(CannotRead):
        read_annotations(pictures / "a.json")


def test_unfinished_lists_of_names_are_not_searched_again_and_again(pictures) -> None:
    """Each would be searched to the end of the file, which takes minutes."""
    (pictures / "data.yaml").write_text("names:[\n" * 131_000)
    with pytest.raises(InvalidAnnotations):
        read_annotations(pictures)
