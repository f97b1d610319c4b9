"""Runs several replicas as real processes on one store, and kills or stops them."""

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from typing import Protocol

from tests.service.replica import serve

_CONTEXT = multiprocessing.get_context("forkserver")
_PRELOAD = ["tests.service.replica", "tidyberg.record.redis_records", "pyiceberg.catalog.sql", "pyiceberg.io.pyarrow"]


class Process(Protocol):
    @property
    def pid(self) -> int | None: ...

    def kill(self) -> None: ...

    def terminate(self) -> None: ...


def start(settings: str, *, engine: str) -> Process:
    """Forks a process with all modules loaded. With Spark it starts a fresh process."""
    if engine == "spark":
        return subprocess.Popen([sys.executable, "-m", "tests.service.replica", settings], stderr=subprocess.DEVNULL)
    _CONTEXT.set_forkserver_preload(_PRELOAD)
    process: BaseProcess = _CONTEXT.Process(target=serve, args=(settings,), daemon=True)
    process.start()
    return process


def wait_for(process: Process, seconds: float) -> None:
    if isinstance(process, subprocess.Popen):
        process.wait(seconds)
    else:
        assert isinstance(process, BaseProcess)
        process.join(seconds)
        assert process.exitcode is not None, f"a replica did not end within {seconds:.0f} seconds"


@dataclass
class Fleet:
    """A fleet with one replica for each pair of settings (JSON) and engine."""

    replicas: list[tuple[str, str]]
    rng: random.Random
    kills: int = 0
    pauses: int = 0
    restarts: int = 0
    _processes: dict[int, Process] = field(default_factory=dict)
    _paused: set[int] = field(default_factory=set)
    _timers: list[threading.Timer] = field(default_factory=list)

    def __enter__(self) -> "Fleet":
        return self

    def begin(self, number: int) -> None:
        settings, engine = self.replicas[number]
        self._processes[number] = start(settings, engine=engine)

    def __exit__(self, *_: object) -> None:
        for timer in self._timers:
            timer.join()
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            wait_for(process, 30)

    def kill_one(self) -> None:
        """Kills a replica and starts another in its place."""
        number = self._choose()
        self._processes[number].kill()
        wait_for(self._processes[number], 30)
        self.begin(number)
        self.kills += 1

    def restart_one(self) -> None:
        """Restarts a replica with SIGTERM, as an operator does for an upgrade."""
        number = self._choose()
        self._processes[number].terminate()
        wait_for(self._processes[number], 120)
        self.begin(number)
        self.restarts += 1

    def pause_one(self, seconds: float) -> None:
        """Stops a replica until others take over its jobs, then lets it continue."""
        number = self._choose()
        pid = self._processes[number].pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        self._paused.add(number)

        def go_on() -> None:
            os.kill(pid, signal.SIGCONT)
            self._paused.discard(number)

        timer = threading.Timer(seconds, go_on)
        timer.start()
        self._timers.append(timer)
        self.pauses += 1

    def stop(self) -> None:
        """Stops all replicas with SIGTERM."""
        for timer in self._timers:
            timer.join()
        for process in self._processes.values():
            process.terminate()
        for process in self._processes.values():
            wait_for(process, 120)

    def _choose(self) -> int:
        while not (awake := [number for number in self._processes if number not in self._paused]):
            time.sleep(0.05)
        # A replica with Spark starts slowly and would never run a job.
        weights = [1 if self.replicas[number][1] == "spark" else 8 for number in awake]
        return self.rng.choices(awake, weights)[0]
