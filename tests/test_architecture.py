"""The layout follows docs/architecture.md: walks are run and compared, and limits hold."""

import ast
import importlib
import inspect
import pkgutil
import re
from collections import Counter
from pathlib import Path

import pytest

import everlearn
from scripts.walks import PAGE, WALKS, entered_by, listed, title_of

LIBRARY = Path(everlearn.__file__).parent
MOST_FILES_IN_A_FOLDER = 20
MOST_OWN_CLASSES_IN_AN_MRO = 4
# The paths that a reader follows first.
MOST_FILES_OF_A_WALK = {"lda": 9, "first_photograph": 22, "photograph": 14}


def our_classes():
    for module in pkgutil.walk_packages(everlearn.__path__, "everlearn."):
        try:
            found = importlib.import_module(module.name)
        except ImportError:  # an extra that is not installed
            continue
        for kind in vars(found).values():
            if inspect.isclass(kind) and is_ours(kind) and kind.__module__ == module.name:
                yield kind


def is_ours(kind):
    return kind.__module__.split(".")[0] == "everlearn"


@pytest.mark.parametrize("walk", WALKS, ids=lambda walk: walk.__name__)
def test_the_page_lists_the_files_that_a_walk_enters(walk):
    entered = entered_by(walk.__name__)
    if entered is None:
        pytest.skip(f"what the walk {walk.__name__} needs is not here")
    on_page = listed(PAGE.read_text("utf-8"))[title_of(walk)]
    assert set(entered) - set(on_page) == set(), "entered, and not on the page"
    assert set(on_page) - set(entered) == set(), "on the page, and not entered"


@pytest.mark.parametrize(("name", "most"), MOST_FILES_OF_A_WALK.items())
def test_frequent_walks_enter_few_files(name, most):
    """A new file on such a path is a decision, not a side effect of rewriting the page."""
    walk = next(walk for walk in WALKS if walk.__name__ == name)
    assert len(listed(PAGE.read_text("utf-8"))[title_of(walk)]) <= most


def test_no_folder_has_too_many_files():
    folders = Counter(file.parent for file in LIBRARY.rglob("*.py"))
    assert {str(f): n for f, n in folders.items() if n > MOST_FILES_IN_A_FOLDER} == {}


#: Packages whose ``__init__.py`` does more than look up names.
ACTIVE_PACKAGES = {
    "cli": "the entry point of the command",
    "deep": "says that torch is missing before a file of it fails",
}
LOOKUP = (
    "import lazy_loader",
    "__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)",
    "from everlearn.deprecation import with_old_names",
    "__getattr__ = with_old_names(",
    "__version__ = ",
)


def is_a_lookup(statement):
    return ast.unparse(statement).startswith(LOOKUP)


def test_packages_only_look_up_names():
    defining = {
        str(file.parent.relative_to(LIBRARY))
        for file in LIBRARY.rglob("__init__.py")
        if not all(map(is_a_lookup, ast.parse(file.read_text("utf-8")).body[1:]))
    }
    assert defining == set(ACTIVE_PACKAGES)


def test_no_class_name_is_defined_twice():
    definitions = re.compile(r"^class (\w+)", re.MULTILINE)
    files = sorted(LIBRARY.rglob("*.py"))
    names = Counter(name for f in files for name in definitions.findall(f.read_text("utf-8")))
    assert [name for name, count in names.items() if count > 1] == []


def test_inheritance_is_shallow():
    deep = {
        kind.__qualname__: [c.__name__ for c in kind.__mro__ if is_ours(c)]
        for kind in our_classes()
        if sum(map(is_ours, kind.__mro__)) > MOST_OWN_CLASSES_IN_AN_MRO
        and not issubclass(kind, Exception)  # an error may be caught under several names
    }
    assert deep == {}


def test_the_library_imports_no_experiments():
    imports = re.compile(r"^\s*(from|import) everlearn_papers", re.MULTILINE)
    files = LIBRARY.rglob("*.py")
    assert [f for f in files if imports.search(f.read_text("utf-8"))] == []


#: Folders of tests whose subject is not one source file.
CROSS_CUTTING = {
    "attacks": "hostile input and killed processes, through every layer",
    "contract": "what every learner promises",
    "docs": "pages, examples and deployment files",
    "ecosystems": "other libraries' data types",
    "golden": "files of earlier versions",
    "properties": "algebra of learners over random streams",
}
#: Single tests whose subject is not one source file.
OTHER_SUBJECTS = {
    "test_architecture.py": "the layout itself",
    "test_benchmarks.py": "benchmarks/ and attacks/ can be started",
    "test_habits.py": "files of the repository",
}


def without_a_source(tests, sources):
    """Tests below ``tests`` that name no module and no asset below ``sources``."""
    found = []
    for test in sorted(tests.rglob("test_*.py")):
        relative = test.relative_to(tests)
        named = sources / relative.parent / relative.name.removeprefix("test_")
        sources_named = (named, named.with_suffix("") / "__init__.py", named.with_suffix(".js"))
        if not any(path.is_file() for path in sources_named):
            found.append(relative)
    return found


def test_tests_mirror_sources():
    tests = Path(__file__).parent
    strays = [
        str(test)
        for test in without_a_source(tests, LIBRARY)
        if test.parts[0] not in CROSS_CUTTING and str(test) not in OTHER_SUBJECTS
    ]
    assert strays == [], "tests/<package>/test_<file>.py tests src/everlearn/<package>/<file>.py"
    assert [name for name in OTHER_SUBJECTS if not (tests / name).is_file()] == []


def test_four_in_five_tests_mirror_a_source_file():
    tests = Path(__file__).parent
    all_tests = len(list(tests.rglob("test_*.py")))
    assert len(without_a_source(tests, LIBRARY)) <= 0.2 * all_tests
