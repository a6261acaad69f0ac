"""Linux on aarch64, a Raspberry Pi for example: python scripts/aarch64.py COMMAND

wheels    extras whose every package has a wheel, and versions of the compiled ones, for each Python
smoke     the wheel of this clone under qemu's emulator, beside the same on this machine: learners,
          photographs taught and asked, and the exported file asked without everlearn

Both need the package index. `smoke` needs Debian with qemu-user-static; it unpacks Debian's Python
for that machine into out/aarch64, and nothing is installed on this one.
"""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
OUT = ROOT / "out" / "aarch64"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
EXTRAS = ("all", "otel", "torch", "dask", "ray", "spark")
# pip reads conditions as on this machine, where torch wants packages that it does not want there.
ALONE = ("torch",)
PLATFORMS = ("manylinux_2_28_aarch64", "manylinux_2_17_aarch64", "manylinux2014_aarch64")
# What Python and compiled packages load from the system.
DEBIAN = (
    "libc6 libstdc++6 libgcc-s1 libgomp1 libatomic1 zlib1g libexpat1 libssl3 libsqlite3-0 libffi8 "
    "libbz2-1.0 liblzma5 libuuid1 libcrypt1 python3.11 python3.11-minimal libpython3.11-minimal "
    "libpython3.11-stdlib"
)
# A processor of a Raspberry Pi 4. onnxruntime reads this file, and the host's describes another.
CPU = "cortex-a72"
CPUINFO = """processor\t: 0
Features\t: fp asimd evtstrm crc32 cpuid
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x0
CPU part\t: 0xd08
CPU revision\t: 3

"""
PROGRAM = """
import json, pathlib, platform, sys
import numpy as np
from PIL import Image
from sklearn.datasets import load_sample_image
import everlearn

rng = np.random.default_rng(0)
y = np.arange(90) % 3
X = rng.normal(size=(90, 16)) + 4 * np.eye(16)[y]
scores = {}
for kind in (everlearn.NearestClassMean, everlearn.StreamingLDA, everlearn.RecursiveRLSC):
    learner = kind().partial_fit(X[:40], y[:40])
    for x, label in zip(X[40:60], y[40:60]):
        learner.learn_one(x, label)
    learner.forget(X[:5], y[:5])
    everlearn.save(learner, "model.everlearn")
    scores[kind.__name__] = everlearn.load("model.everlearn").decision_function(X[60:]).tolist()
answers = {}
with everlearn.Memory("memory") as memory:
    for name in ("flower", "china"):
        photograph = Image.fromarray(load_sample_image(f"{name}.jpg"))
        for number in range(6):
            x, y = 60 * number, 30 * number
            photograph.crop((x, y, x + 280, y + 280)).save(f"{name}-{number}.png")
            if number % 2 == 0:
                memory.teach(f"{name}-{number}.png", name)
    for path in sorted(pathlib.Path().glob("*-[135].png")):
        answer = memory.ask(path)
        answers[path.name] = [answer[0].name, answer[0].probability, answer.unknown]
    memory.export("things.onnx", with_embedder=True)
print(json.dumps({"machine": platform.machine(), "scores": scores, "answers": answers}))
"""


def run(*words: object, **settings: Any) -> str:
    """Run a command; what it prints, or an end with what it printed."""
    command = [str(word) for word in words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, **settings)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def for_aarch64(python: str) -> list[str]:
    """Options that have pip choose wheels for the other machine."""
    platforms = [word for name in PLATFORMS for word in ("--platform", name)]
    return [*platforms, "--python-version", python, "--only-binary=:all:"]


def requirements(*extras: str) -> list[str]:
    """What the extras name, from pyproject.toml, without ourselves."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    found = list(project["dependencies"])
    for extra in extras:
        for line in project["optional-dependencies"][extra]:
            ours = re.fullmatch(r"everlearn\[(.+)\]", line)
            found += requirements(*ours[1].split(",")) if ours else [line]
    return sorted(set(found))


def resolved(extra: str, python: str) -> dict[str, tuple[str, bool]] | None:
    """Version of each package that an extra installs, and whether it is compiled.

    None if something has no wheel.
    """
    report = OUT / f"{extra}-{python}.json"
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed",
         "--target", OUT / "nothing", "--report", report, *for_aarch64(python),
         *(["--no-deps"] if extra in ALONE else []), *requirements(extra)],
        check=False,
    )  # fmt: skip
    if done.returncode:
        return None
    parts = json.loads(report.read_text("utf-8"))["install"]
    return {
        part["metadata"]["name"]: (
            part["metadata"]["version"],
            "aarch64" in part["download_info"]["url"],
        )
        for part in parts
    }


def wheels() -> None:
    found = {(extra, python): resolved(extra, python) for extra in EXTRAS for python in PYTHONS}
    header = f"{' | '.join(PYTHONS)} |\n|---|{'---|' * len(PYTHONS)}"
    print(f"| extra | {header}")
    for extra in EXTRAS:
        cells = ("no" if found[extra, python] is None else "yes" for python in PYTHONS)
        print(f"| `{extra}` | {' | '.join(cells)} |")
    columns = [found["all", python] or {} for python in PYTHONS]
    compiled = {name for column in columns for name, (_, here) in column.items() if here}
    print(f"\nof {len(set().union(*columns))} packages of `all`, these are compiled:\n")
    print(f"| package | {header}")
    for name in sorted(compiled, key=str.lower):
        print(f"| {name} | {' | '.join(column.get(name, ('no',))[0] for column in columns)} |")


def smoke() -> None:
    emulator = shutil.which("qemu-aarch64-static")
    if emulator is None:
        raise SystemExit("there is no emulator; install it with: apt-get install qemu-user-static")
    root, site = OUT / "root", OUT / "site"
    unpack_debian(root)
    run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", OUT, ROOT)
    (wheel,) = OUT.glob("everlearn-*.whl")
    shutil.rmtree(site, ignore_errors=True)
    run(sys.executable, "-m", "pip", "install", "--no-compile", "--target", site,
        *for_aarch64("3.11"), f"everlearn[cli] @ {wheel.as_uri()}")  # fmt: skip
    there = [emulator, "-cpu", CPU, "-L", root, "-E", f"PYTHONPATH={site}",
             "-E", "OPENBLAS_NUM_THREADS=1", root / "usr/bin/python3.11"]  # fmt: skip
    said, exported = [], []
    for name, python in (("here", [sys.executable]), ("there", there)):
        folder = OUT / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        said.append(json.loads(run(*python, "-c", PROGRAM, cwd=folder)))
        files = sorted(path.name for path in folder.glob("*-[135].png"))
        asked = run(*python, ROOT / "examples/ask_exported.py", "things.onnx", *files, cwd=folder)
        exported.append([line.split("(")[0].split() for line in asked.splitlines()])
    compare(*said)
    if exported[0] != exported[1]:
        raise SystemExit(f"the exported file answers differently: {exported}")
    print(f"ask_exported.py: {len(exported[0])} answers, the same names")


def unpack_debian(root: Path) -> None:
    """Debian's packages for the other machine, with an index of their own."""
    debs = OUT / "debs"
    for folder in (root, debs, OUT / "apt/lists/partial", OUT / "apt/cache/archives/partial"):
        folder.mkdir(parents=True, exist_ok=True)
    (OUT / "apt/status").touch()
    words = ["APT::Architecture=arm64", "APT::Architectures=arm64", "APT::Sandbox::User=root",
             f"Dir::State::lists={OUT}/apt/lists", f"Dir::State::status={OUT}/apt/status",
             f"Dir::Cache={OUT}/apt/cache"]  # fmt: skip
    options = [option for word in words for option in ("-o", word)]
    run("apt-get", *options, "update")
    run("apt-get", *options, "download", *DEBIAN.split(), cwd=debs)
    for package in debs.glob("*.deb"):
        run("dpkg", "-x", package, root)
    for path, text in {
        "proc/cpuinfo": CPUINFO,
        "sys/devices/system/cpu/possible": "0\n",
        "sys/devices/system/cpu/present": "0\n",
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


def compare(here: dict[str, Any], there: dict[str, Any]) -> None:
    """The same names and verdicts; scores and probabilities to what rounding allows."""
    import numpy as np

    if there["machine"] != "aarch64":
        raise SystemExit(f"this ran on {there['machine']}")
    for learner, scores in here["scores"].items():
        gap = np.abs(np.subtract(scores, there["scores"][learner])).max() / np.abs(scores).max()
        print(f"{learner}: scores differ by {gap:.0e} of the largest")
        if gap > 1e-10:
            raise SystemExit("that is more than rounding")
    worst = 0.0
    for file, (name, probability, unknown) in here["answers"].items():
        other = there["answers"][file]
        if [name, unknown] != [other[0], other[2]]:
            raise SystemExit(f"{file} is {name} here and {other[0]} there")
        worst = max(worst, abs(probability - other[1]))
    print(
        f"Memory: {len(here['answers'])} answers, the same names; probabilities within {worst:.0e}"
    )


if __name__ == "__main__":
    OUT.mkdir(parents=True, exist_ok=True)
    commands = {"wheels": wheels, "smoke": smoke}
    if len(sys.argv) != 2 or sys.argv[1] not in commands:
        raise SystemExit(__doc__)
    commands[sys.argv[1]]()
