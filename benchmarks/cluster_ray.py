"""Starts a local Ray cluster, retrying if necessary."""

import gc
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

PATIENCE = {
    "RAY_AUTH_MODE": "disabled",
    "RAY_raylet_start_wait_time_s": "60",
    "RAY_worker_register_timeout_seconds": "300",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}


class DidNotStart(Exception):
    """Ray gives up when its own processes need more than fifteen seconds to start."""


@contextmanager
def started_ray(workers: int = 2, memory: int = 200 << 20, attempts: int = 2) -> Iterator[Any]:
    """The ``ray`` module, connected to a node with so many workers."""
    os.environ.update(PATIENCE)
    import ray

    for _ in range(attempts):
        try:
            ray.init(
                num_cpus=workers,
                include_dashboard=False,
                log_to_driver=False,
                object_store_memory=memory,
            )
            break
        except Exception as error:
            ended(ray)
            reason = str(error)
    else:
        raise DidNotStart(f"Ray did not start: {reason}")
    try:
        yield ray
    finally:
        ended(ray)


def ended(ray: Any) -> None:
    """End Ray and wait for its processes, which it does not do itself."""
    started = processes_of_ray()
    ray.shutdown()
    for process in started:
        process.kill()
        process.wait()


def processes_of_ray() -> list[Any]:
    """Ray's processes that this one started, as ``subprocess.Popen``."""
    # isinstance would follow weak proxies, and raise for one whose object is gone.
    return [
        thing
        for thing in gc.get_objects()
        if issubclass(type(thing), subprocess.Popen) and "ray" in str(thing.args)
    ]
