"""Bridge to FiftyOne: learns from the labels of a dataset and labels the rest of it.

    ground truth      Classification, Classifications     →  taught as whole pictures
                      Detection, Detections               →  taught as the parts in their boxes
    predictions       set on samples without ground truth: what the Memory recognises, with its
                      probability; empty for unknown. Boxes if the ground truth has boxes
    confirmed         tag of a sample whose predictions are right: they are taught as well

A label that is changed, deleted or no longer confirmed is forgotten exactly with the next review:
each is one teaching with the source ``fiftyone/DATASET/SAMPLE/LABEL/DIGEST``. Predictions of a
sample that was given ground truth later stay as they were, so ``evaluate_classifications`` compares
them with what was not known when they were made.

Tested with FiftyOne 1.22.
"""

import logging
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import quote

from everlearn.errors import CannotRead, InvalidInput, InvalidParameter, MissingPackage
from everlearn.memory.answers import Answers
from everlearn.service.bridges.labels import BridgedMemory, FollowedLabels, Label, Review

LOG = logging.getLogger("everlearn.service")

SOURCE = "fiftyone"
TRUTH, PREDICTIONS, CONFIRMED = "ground_truth", "everlearn", "confirmed"


class FiftyOne:
    """Learns from a dataset and labels it, one review at a time.

    Parameters
    ----------
    memory : Memory or Client
    dataset : fiftyone.Dataset or str
        A dataset of images, or its name.
    truth : str
        The field with the labels to learn; need not exist.
    predictions : str
        The field that the bridge sets; it is made if there is none.
    confirmed : str
        The tag of samples whose predictions are right.
    """

    def __init__(
        self,
        memory: BridgedMemory,
        dataset: Any,
        *,
        truth: str = TRUTH,
        predictions: str = PREDICTIONS,
        confirmed: str = CONFIRMED,
    ) -> None:
        if truth == predictions:
            raise InvalidParameter(f"ground truth and predictions are both the field {truth!r}")
        self._fiftyone = _package()
        self._dataset = self._loaded(dataset) if isinstance(dataset, str) else dataset
        self._memory = memory
        self._truth, self._predictions, self._confirmed = truth, predictions, confirmed
        self._labels = FollowedLabels(memory, f"{SOURCE}/{quote(self._dataset.name, safe='')}")
        # Sample → the length of the Memory's log when it was asked about.
        self._asked: dict[str, int] = {}

    def review(self) -> Review:
        """Learn what is labelled, then label what is not."""
        self._dataset.reload()
        labels = {
            f"{sample.id}/{one.id}/{label.digest}": label
            for sample in self._samples()
            for one in self._right(sample)
            if (label := self._label(sample, one)) is not None
        }
        taught, gone = self._labels.follow(labels)
        done = self._label_the_rest()
        return Review(len(taught), len(gone), done[True], done[False])

    def _label_the_rest(self) -> Counter[bool]:
        """Set predictions; returns how many samples have something known in them, or nothing."""
        with_boxes = self._prepare_predictions()
        length = self._memory.info()["log_entries"]
        done: Counter[bool] = Counter()
        for sample in self._samples():
            if self._asked.get(sample.id) == length or next(self._right(sample), None) is not None:
                continue
            self._asked[sample.id] = length
            try:
                found = self._predicted(sample.filepath, with_boxes)
            except (CannotRead, InvalidInput) as error:
                LOG.warning("sample %s of FiftyOne is not labelled: %s", sample.id, error)
                continue
            sample[self._predictions] = found
            done[bool(found.detections if with_boxes else found)] += 1
        return done

    def _loaded(self, name: str) -> Any:
        if not self._fiftyone.dataset_exists(name):
            raise InvalidParameter(f"FiftyOne has no dataset {name!r}")
        return self._fiftyone.load_dataset(name)

    def _samples(self) -> Iterator[Any]:
        """All images; a sample that is changed is saved when the next one is read."""
        for sample in self._dataset.iter_samples(autosave=True, progress=False):
            if sample.media_type == "image":
                yield sample

    def _right(self, sample: Any) -> Iterator[Any]:
        """The labels of a sample that a person set or confirmed."""
        yield from self._labels_of(sample, self._truth)
        if self._confirmed in (sample.tags or ()):
            yield from self._labels_of(sample, self._predictions)

    def _labels_of(self, sample: Any, field: str) -> Iterator[Any]:
        fo = self._fiftyone
        value = sample[field] if sample.has_field(field) else None
        if isinstance(value, fo.Classifications):
            yield from value.classifications
        elif isinstance(value, fo.Detections):
            yield from value.detections
        elif isinstance(value, (fo.Classification, fo.Detection)):
            yield value
        elif value is not None:
            raise InvalidParameter(
                f"the field {field!r} must have classifications or detections, not "
                f"{type(value).__name__}"
            )

    def _label(self, sample: Any, one: Any) -> Label | None:
        if not one.label:
            return None
        rectangle = None
        if isinstance(one, self._fiftyone.Detection):
            left, top, width, height = (float(edge) for edge in one.bounding_box)
            rectangle = left, top, width, height
        return Label(str(one.label), partial(Path, sample.filepath), rectangle)

    def _prepare_predictions(self) -> bool:
        """Make the field of predictions, if there is none; returns whether it has boxes."""
        fo = self._fiftyone
        if (field := self._dataset.get_field(self._predictions)) is None:
            truth = getattr(self._dataset.get_field(self._truth), "document_type", None)
            kind = fo.Detections if truth in (fo.Detection, fo.Detections) else fo.Classification
            self._dataset.add_sample_field(
                self._predictions, fo.EmbeddedDocumentField, embedded_doc_type=kind
            )
            return kind is fo.Detections
        kind = getattr(field, "document_type", None)
        if kind not in (fo.Classification, fo.Detections):
            raise InvalidParameter(
                f"predictions cannot be set in the existing field {self._predictions!r}; choose "
                "another one"
            )
        return kind is fo.Detections

    def _predicted(self, path: str, with_boxes: bool) -> Any:
        """What the Memory recognises in a picture, as FiftyOne's labels."""
        fo = self._fiftyone
        if not with_boxes:
            best = _best(self._memory.ask(Path(path), top=1))
            return fo.Classification(**best) if best else None
        detections = []
        for thing in self._memory.find(Path(path), top=1):
            if best := _best(thing.answers):
                left, top, right, bottom = (float(edge) for edge in thing.box)
                box = [left, top, right - left, bottom - top]
                detections.append(fo.Detection(bounding_box=box, **best))
        return fo.Detections(detections=detections)


def _best(answers: Answers) -> dict[str, Any] | None:
    if answers.unknown or not answers:
        return None
    return {"label": answers[0].name, "confidence": answers[0].probability}


def _package() -> ModuleType:
    try:
        import fiftyone
    except ModuleNotFoundError:
        raise MissingPackage(
            "the bridge to FiftyOne needs fiftyone; install it with: pip install fiftyone"
        ) from None
    return fiftyone
