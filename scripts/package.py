"""Distributions, checked: python scripts/package.py COMMAND

all [TAG]      build, check, install and sbom, then what to do next; with a tag, the version has to
               be that of the tag
build          all distributions, twice, which has to give the same bytes
check          twine and check-wheel-contents
install DIST   the wheels of a folder into an empty environment, and a first success there;
               where uv is installed, for every supported Python that is found
sbom           what an installation consists of, as CycloneDX
sizes          what is whose in an installed environment
oldest         the fast part of the tests with the oldest versions that pyproject.toml allows
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
PROJECTS = (ROOT, ROOT / "papers", ROOT / "networks")
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
# One date for every file, so that the same sources give the same bytes.
EPOCH = "1767225600"
FIRST_SUCCESS = """
import everlearn, tempfile, pathlib
learner = everlearn.StreamingLDA().learn_one([0.0, 1.0], "cup").learn_one([1.0, 0.0], "pen")
assert learner.predict_one([0.1, 0.9]) == "cup"
with tempfile.TemporaryDirectory() as folder:
    place = pathlib.Path(folder) / "model"
    everlearn.save(learner, place)
    assert everlearn.load(place).predict_one([0.9, 0.1]) == "pen"
print("everlearn", everlearn.__version__, "works")
"""
# Quick tests that touch every dependency.
FAST = ("tests/statistics", "tests/test_base.py", "tests/contract/test_check_learner.py",
        "tests/test_persistence.py", "tests/golden/test_golden.py", "tests/test_pipeline.py",
        "tests/ecosystems/test_frames.py", "tests/evaluation",
        "tests/images/test_decode.py", "tests/memory/test_memory.py",
        "tests/service/api/test_routes.py", "tests/learners/test_lda.py",
        "tests/learners/test_rlsc.py")  # fmt: skip
TEST_TOOLS = (
    "pytest>=9",
    "hypothesis>=6.170",
    "httpx>=0.28",
    "httpx2>=2",
    "pandas>=2.2.2",
    "polars>=1.0",
)


def run(*command: object, **settings: Any) -> str:
    """Run a command and return its output; exits with the output on failure."""
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, check=False, **settings)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}\n{done.stdout}{done.stderr}")
    return done.stdout


def build() -> None:
    digests, dated = [], os.environ | {"SOURCE_DATE_EPOCH": EPOCH}
    for _ in range(2):
        shutil.rmtree(DIST, ignore_errors=True)
        for project in PROJECTS:
            run(sys.executable, "-m", "build", "--installer", "uv" if uv() else "pip",
                "--outdir", DIST, project, env=dated)  # fmt: skip
        digests.append({p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in files()})
    if digests[0] != digests[1]:
        raise SystemExit(f"not reproducible: {digests}")
    for name, digest in digests[0].items():
        print(f"{digest}  {name}  {(DIST / name).stat().st_size / 1e6:.1f} MB, twice the same")


def check() -> None:
    run(sys.executable, "-m", "twine", "check", "--strict", *files())
    run(sys.executable, "-m", "check_wheel_contents", *DIST.glob("*.whl"))
    print(f"{len(files())} files pass twine and check-wheel-contents")


def install(folder: Path) -> None:
    wheel = next(folder.glob("everlearn-[0-9]*.whl"))
    found: list[str | None] = [python for python in PYTHONS if uv() and has(python)] or [None]
    for python in found:
        with tempfile.TemporaryDirectory() as place:
            binary = environment(Path(place), python, f"{wheel}")
            print(python or sys.version.split()[0], run(binary, "-c", FIRST_SUCCESS).strip())
    missing = [python for python in PYTHONS if python not in found]
    if uv() and missing:
        print(f"not found here, and so not tried: Python {', '.join(missing)}")


def sbom() -> None:
    with tempfile.TemporaryDirectory() as place:
        wheel = next(DIST.glob("everlearn-[0-9]*.whl"))
        binary = environment(Path(place), None, f"everlearn[all] @ {wheel.as_uri()}")
        target = DIST / "sbom.cdx.json"
        run(sys.executable, "-m", "cyclonedx_py", "environment", binary, "--output-file", target)
    print(f"{target.name}: what `everlearn[all]` installs, versions and licences")


def sizes() -> None:
    """A table for the site: the size of an environment by package."""
    wheel = next(DIST.glob("everlearn-[0-9]*.whl"))
    for extra in ("", "[cli]", "[cli,fast]", "[serve]", "[all]"):
        with tempfile.TemporaryDirectory() as place:
            binary = environment(Path(place), None, f"everlearn{extra} @ {wheel.as_uri()}")
            packages = binary.parents[1].rglob("site-packages")
            weights = sorted(
                ((size_of(entry), entry.name) for entry in next(packages).iterdir()), reverse=True
            )
            total = sum(size for size, _ in weights)
            heaviest = ", ".join(f"{name} {size / 1e6:.0f}" for size, name in weights[:8])
            print(f"| everlearn{extra} | {total / 1e6:.0f} | {heaviest} |")


def oldest() -> None:
    if not uv():
        raise SystemExit("the oldest versions are found by uv: pip install uv")
    with tempfile.TemporaryDirectory() as place:
        run("uv", "venv", "--python", PYTHONS[0], place)
        binary = Path(place) / "bin" / "python"
        ours = (
            "-e",
            f"{ROOT}[cli,plots,serve,shards]",
            "-e",
            ROOT / "papers",
            "-e",
            ROOT / "networks",
        )
        lowest = "--resolution", "lowest-direct"
        run("uv", "pip", "install", "--python", binary, *lowest, *ours, *TEST_TOOLS)
        print(run("uv", "pip", "freeze", "--python", binary).strip())
        # Old packages warn about each other; only their function matters here.
        loose = "-x", "-W", "default", "--disable-warnings"
        print(run(binary, "-m", "pytest", *loose, *FAST, cwd=ROOT).splitlines()[-1])


def environment(place: Path, python: str | None, *wanted: str) -> Path:
    """An empty environment with this installed; returns its Python."""
    binary = place / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if uv():
        run("uv", "venv", "--quiet", "--python", python or sys.executable, place)
        run("uv", "pip", "install", "--quiet", "--link-mode", "copy", "--python", binary, *wanted)
    else:
        run(sys.executable, "-m", "venv", place)
        run(binary, "-m", "pip", "install", "--quiet", *wanted)
    return binary


def files() -> list[Path]:
    return sorted([*DIST.glob("*.whl"), *DIST.glob("*.tar.gz")])


def uv() -> bool:
    return shutil.which("uv") is not None


def has(python: str) -> bool:
    found = subprocess.run(
        ["uv", "python", "find", "--no-python-downloads", python], capture_output=True, check=False
    )
    return found.returncode == 0


def size_of(entry: Path) -> int:
    return sum(f.stat().st_size for f in entry.rglob("*") if f.is_file()) or entry.stat().st_size


def say_what_is_next() -> None:
    """A dry run: what would be uploaded, and how."""
    print("nothing was uploaded; the workflow release.yml would upload:")
    for path in files():
        print(f"  {path.name}")
    print(
        "push the tag v<version> to have it do so, or, by hand: twine upload dist/*.whl dist/*.gz"
    )


def same_as_tag(tag: str) -> None:
    version = re.search(r'__version__ = "(.+)"', (ROOT / "src/everlearn/__init__.py").read_text())
    if version is None or tag != f"v{version[1]}":
        raise SystemExit(f"the tag is {tag}, everlearn.__version__ {version and version[1]}")


def main(command: str, *given: str) -> None:
    if command == "all":
        if given:
            same_as_tag(given[0])
        build()
        check()
        install(DIST)
        sbom()
        say_what_is_next()
    elif command == "install":
        install(Path(given[0]))
    elif command in ("build", "check", "sbom", "sizes", "oldest"):
        globals()[command]()
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main(*(sys.argv[1:] or ["help"]))
