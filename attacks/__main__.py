"""``python -m attacks [NAME …]``: run attacks and print what they found.

An attack that takes minutes is a module of this package with a function ``lines()`` that yields
``Line`` objects; the others are run as modules (``python -m attacks.crash 100``) and print JSON.
"""

import importlib
import sys
import time

ATTACKS: tuple[str, ...] = (
    "images_safety",
    "memory_safety",
    "postgres_kills",
    "service_kills",
    "service_hostile",
    "service_connections",
)


def main(names: list[str]) -> None:
    unknown = set(names) - set(ATTACKS)
    if unknown:
        raise SystemExit(
            f"no attack is called {', '.join(sorted(unknown))}; there are {', '.join(ATTACKS)}"
        )
    for name in names or ATTACKS:
        start = time.perf_counter()
        for line in importlib.import_module(f"attacks.{name}").lines():
            print(line, flush=True)
        print(f"  [{name}: {time.perf_counter() - start:.0f} s]", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
