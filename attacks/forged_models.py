"""Forged model files: every digest is correct, and nothing else has to be.

    python -m attacks.forged_models --files 100000

Each file is a saved learner of which some parameter, note, label or array was replaced before the
digest was recomputed. Loading it, and then asking and teaching the result, may raise one of
everlearn's named errors or give an answer; it must not raise anything else, crash or hang. The
attacks run in separate processes, so that a crash is counted and survived.
"""

import argparse
import copy
import json
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from sklearn.exceptions import NotFittedError

import everlearn
from everlearn import persistence
from everlearn.errors import EverlearnError

LONGEST = 10.0  # seconds of processor time before a file counts as a hang
N_FEATURES = 5

NUMBERS = [0, 1, -1, 2, 3, 1000, 2**31, 2**63 - 1, 2**63, -(2**63), 10**12, 10**400]
FLOATS = [0.0, -0.0, 0.5, 1.0, -1.0, 1e-300, 1e300, -1e300, float("inf"), float("nan")]
OTHERS: list[Any] = [
    None,
    True,
    False,
    "",
    "auto",
    "oas",
    "no such word",
    [],
    [[]],
    {"array": "counts"},
]
EXTREMES = [0.0, 1.0, -1.0, 1e20, -1e20, 1e154, 1e300, np.inf, -np.inf, np.nan]


def makers() -> dict[str, Any]:
    """Constructors of one fitted learner of every kind that can be saved."""
    import everlearn as e

    pca = e.StreamingPCA(n_components=3, axes="steady")
    known = [e.LeastSquaresSVM().fit(*examples("LeastSquaresSVM"))]
    return {
        "NearestClassMean": e.NearestClassMean(),
        "NearestClassMean, learned": e.NearestClassMean(metric="learned", rank=2),
        "StreamingLDA": e.StreamingLDA(),
        "StreamingLDA, by class": e.StreamingLDA(shrinkage="oas", class_scatter=True),
        "FixedCovarianceLDA": e.FixedCovarianceLDA(),
        "RecursiveRLSC": e.RecursiveRLSC(),
        "RecursiveRLSC, auto": e.RecursiveRLSC(regularization="auto", recoding="auto"),
        "RecursiveRLSC, rebalanced": e.RecursiveRLSC(weighting="rebalance", fit_intercept=True),
        "ExStream": e.ExStream(n_prototypes=3),
        "InitialWhitening": e.InitialWhitening(),
        "ClassWhitening": e.ClassWhitening(),
        "StreamingPCA": e.StreamingPCA(n_components=3, keep_coefficients=True),
        "RobustStreamingPCA": e.RobustStreamingPCA(n_components=2),
        "StreamPipeline": e.StreamPipeline([("pca", pca), ("learner", e.StreamingLDA())]),
        "PassiveAggressive": e.PassiveAggressive(),
        "LeastSquaresSVM": e.LeastSquaresSVM(),
        "MultiKT": e.MultiKT(prior_models=known),
        "TROL": e.TROL(prior_models=known),
        "TROLPlus": e.TROLPlus(prior_models=known),
        "OnlineTransfer": e.OnlineTransfer(prior_models=known),
        "TransferClassifier": e.TransferClassifier(),
        "AutoClassifier": e.AutoClassifier(),
        "PowerNormalizer": e.PowerNormalizer(),
        "RandomFeatures": e.StreamPipeline(
            [("wide", e.RandomFeatures(n_components=16)), ("learner", e.RecursiveRLSC())]
        ),
        "NCMForest": e.NCMForest(n_estimators=3, random_state=0),
        "SVMForest": e.SVMForest(n_estimators=3, random_state=0),
    }


TWO_LABELS = (
    "PassiveAggressive",
    "LeastSquaresSVM",
    "MultiKT",
    "TROL",
    "TROLPlus",
    "OnlineTransfer",
)


def examples(kind: str) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    n_classes = 2 if kind in TWO_LABELS else 4
    y = np.arange(24) % n_classes
    return rng.normal(size=(24, N_FEATURES)) + 2.0 * y[:, None], y


def original(kind: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The description and the arrays of one fitted learner."""
    learner = makers()[kind].fit(*examples(kind))
    arrays: dict[str, np.ndarray] = {}
    description = persistence._describe(learner, arrays, "")
    return description, {key: np.ascontiguousarray(value) for key, value in arrays.items()}


def forge(
    rng: np.random.Generator, description: dict[str, Any], arrays: dict[str, np.ndarray]
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The same with one to three values replaced."""
    description, arrays = copy.deepcopy(description), dict(arrays)
    for _ in range(rng.integers(1, 4)):
        if arrays and rng.random() < 0.6:
            _forge_array(rng, arrays)
        else:
            _forge_value(rng, description)
    return description, arrays


def _forge_array(rng: np.random.Generator, arrays: dict[str, np.ndarray]) -> None:
    name = list(arrays)[rng.integers(len(arrays))]
    array = arrays[name].copy()
    way = rng.integers(8)
    if way <= 3 and array.size:  # one value, or a few
        places = rng.integers(array.size, size=rng.integers(1, 4))
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            values = np.array(rng.choice(EXTREMES, size=len(places)))
            if array.dtype.kind in "iub":
                values = rng.choice([-1, 0, 1, 7, 10**6, 2**31 - 1, -(2**31)], size=len(places))
            array.ravel()[places] = values.astype(array.dtype)
    elif way == 4 and array.size:  # all of it
        with np.errstate(all="ignore"):
            array[...] = np.array(rng.choice(EXTREMES[:7])).astype(array.dtype)
    elif way == 5:  # another shape
        array = (
            [array[:0], array[..., None], array.ravel(), np.concatenate([array, array])][
                rng.integers(4)
            ]
            if array.ndim
            else array[None]
        )
    elif way == 6:  # another kind
        with np.errstate(all="ignore"):
            array = np.nan_to_num(array).astype(
                [np.float32, np.float64, np.int64, np.int8, np.bool_, np.uint64][rng.integers(6)]
            )
    else:
        del arrays[name]
        return
    arrays[name] = np.ascontiguousarray(array)


def _forge_value(rng: np.random.Generator, description: dict[str, Any]) -> None:
    places = list(_places(description))
    holder, key = places[rng.integers(len(places))]
    way = rng.integers(6)
    if way == 0 and isinstance(holder, dict):
        del holder[key]
    elif way == 1:
        holder[key] = copy.deepcopy(OTHERS[rng.integers(len(OTHERS))])
    elif way == 2:
        holder[key] = FLOATS[rng.integers(len(FLOATS))]
    elif way == 3 and isinstance(holder[key], list) and holder[key]:
        holder[key].append(holder[key][0])
    elif way == 4:
        deep: Any = []
        for _ in range(rng.integers(1, 900)):
            deep = [deep]
        holder[key] = deep
    else:
        holder[key] = NUMBERS[rng.integers(len(NUMBERS))]


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    waiting = [value]
    while waiting:
        holder = waiting.pop()
        for key, item in list(holder.items() if isinstance(holder, dict) else enumerate(holder)):
            yield holder, key
            if isinstance(item, (dict, list)):
                waiting.append(item)


def write(path: Path, description: dict[str, Any] | str, arrays: dict[str, np.ndarray]) -> None:
    """A file with a valid digest for any content."""
    usual = sys.getrecursionlimit()
    sys.setrecursionlimit(10_000)  # what the attacker nests is the loader's trouble, not his own
    text = description if isinstance(description, str) else json.dumps(description)
    sys.setrecursionlimit(usual)
    metadata = {
        "format": "everlearn",
        "version": str(persistence.FORMAT_VERSION),
        "learner": "any",
        "description": text,
    }
    metadata["digest"] = persistence._digest(metadata, arrays)
    path.write_bytes(safetensors.numpy.save(arrays, metadata))


def attack(path: Path, X: np.ndarray, y: np.ndarray) -> str:
    """Load, ask and teach; returns the outcome. Raises anything but a named error."""
    try:
        learner = everlearn.load(path)
    except EverlearnError:
        return "refused"
    outcome = "answered"
    for use in (_asked, _asked_one, _taught_one, _taught, _asked):
        try:
            use(learner, X, y)
        except (EverlearnError, NotFittedError):
            outcome = "refused later"
    return outcome


def _asked(learner: Any, X: np.ndarray, y: np.ndarray) -> None:
    (learner.predict if hasattr(learner, "predict") else learner.transform)(X)


def _asked_one(learner: Any, X: np.ndarray, y: np.ndarray) -> None:
    if hasattr(learner, "predict_one"):
        learner.predict_one(X[0])


def _taught_one(learner: Any, X: np.ndarray, y: np.ndarray) -> None:
    if hasattr(learner, "predict_one"):
        learner.learn_one(X[0], int(y[0]))


def _taught(learner: Any, X: np.ndarray, y: np.ndarray) -> None:
    learner.partial_fit(X, y)


def attack_many(kind: str, first: int, last: int, report: Any) -> None:
    """Forge and attack; one line of JSON to ``report`` for each file before and after."""
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    source, (X, y) = original(kind), examples(kind)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.everlearn"
        write(path, *source)
        attack(path, X, y)  # compiles what is needed, which is no fault of a forged file
        for number in range(first, last):
            rng = np.random.default_rng([number, len(kind)])
            write(path, *forge(rng, *source))
            print(json.dumps({"at": number}), file=report, flush=True)
            signal.setitimer(signal.ITIMER_PROF, LONGEST)  # whose signal ends the process
            try:
                outcome = attack(path, X, y)
            except BaseException as error:
                outcome = f"raw {type(error).__name__}: {str(error)[:100]}"
            signal.setitimer(signal.ITIMER_PROF, 0.0)
            print(json.dumps({"outcome": outcome}), file=report, flush=True)


def campaign(kind: str, n_files: int) -> Counter[str]:
    """All files of one kind, whatever crashes on the way."""
    outcomes: Counter[str] = Counter()
    first = 0
    while first < n_files:
        command = [sys.executable, "-m", "attacks.forged_models", "--worker", kind]
        command += ["--first", str(first), "--last", str(n_files)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        at = first - 1
        finished = True
        for line in done.stdout.splitlines():
            entry = json.loads(line)
            if "at" in entry:
                at, finished = entry["at"], False
            else:
                finished = True
                outcomes[entry["outcome"]] += 1
        if not finished:
            hung = done.returncode == -signal.SIGPROF
            word = "hang" if hung else f"crash, exit {done.returncode}"
            outcomes[f"{word} at file {at}"] += 1
        elif at < first:
            raise RuntimeError(f"the attacker of {kind} did not start:\n{done.stderr[-2000:]}")
        first = at + 1
    return outcomes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=2000)
    parser.add_argument("--kinds", nargs="*")
    parser.add_argument("--worker")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--last", type=int, default=0)
    asked = parser.parse_args()
    if asked.worker:
        attack_many(asked.worker, asked.first, asked.last, sys.stdout)
        return
    kinds = asked.kinds or list(makers())
    total: Counter[str] = Counter()
    for kind in kinds:
        begin = time.perf_counter()
        outcomes = campaign(kind, asked.files // len(kinds))
        total += outcomes
        print(f"{kind}: {dict(outcomes)} in {time.perf_counter() - begin:.0f} s", flush=True)
    named = sum(total[word] for word in ("refused", "refused later", "answered"))
    print(
        f"{sum(total.values()):,} forged files of {len(kinds)} kinds: {total['refused']:,} refused "
        f"on loading, {total['refused later']:,} when used, {total['answered']:,} harmless, "
        f"{sum(total.values()) - named:,} crashed, hung or raised something unnamed"
    )


if __name__ == "__main__":
    main()
