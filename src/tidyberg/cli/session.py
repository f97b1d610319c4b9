"""The state of one command: its flags, settings and consoles."""

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TextIO

from rich.console import Console, RenderableType

from tidyberg.cli.console import TerminalConsole
from tidyberg.cli.flags import CommonFlags, EngineFlags
from tidyberg.errors import TidybergError
from tidyberg.settings.load import load_settings
from tidyberg.settings.settings import Settings

_WIDTH_WITHOUT_TERMINAL = 120


def standard_output() -> Console:
    """Returns the console for results. Without a terminal it writes plain text of a fixed width."""
    return _console(sys.stdout)


def standard_error() -> Console:
    """Returns the console for progress, notices and errors."""
    return _console(sys.stderr)


def _console(file: TextIO) -> Console:
    return TerminalConsole(file=file, width=None if file.isatty() else _WIDTH_WITHOUT_TERMINAL, highlight=False)


@dataclass(frozen=True)
class Session:
    common: CommonFlags
    engine_flags: EngineFlags = field(default_factory=EngineFlags)
    adjust: Callable[[Settings], Settings] = lambda settings: settings

    @cached_property
    def settings(self) -> Settings:
        return self.engine_flags.applied_to(self.adjust(load_settings(self.common.config)))

    def show(self, text: RenderableType, document: Any, *, soft_wrap: bool = False) -> None:
        """Shows the result as text, or as JSON with --json. With `soft_wrap`, lines are never wrapped or cut."""
        if self.common.json:
            from tidyberg.cli.as_json import print_json

            print_json(document)
        else:
            standard_output().print(text, soft_wrap=soft_wrap)


THIS_PROCESS = "this process"


def engine_label(settings: Settings, *, inline: bool = False) -> str:
    """Returns where a job runs. `inline` means that `engine: auto` would run it in this process."""
    if settings.engine == "inline" or (settings.engine == "auto" and inline):
        return THIS_PROCESS
    if settings.spark.connect:
        return settings.spark.connect.split(";")[0]
    return settings.spark.master.replace("local[*]", f"local[{os.cpu_count() or 1}]")


def launch_spark(settings: Settings) -> None:
    """Starts the JVM of local Spark early, while other modules are imported."""
    spark = settings.spark
    if settings.engine != "spark" or spark.connect is not None:
        return
    from tidyberg.execute.engine import APP_NAME
    from tidyberg.execute.spark.launch import launch_in_background
    from tidyberg.execute.spark.session import engine_launch, retrying_master

    with suppress(TidybergError):  # the job will report the error
        master = retrying_master(spark.master)
        launch_in_background(
            *engine_launch(master, spark.driver_memory, spark.conf, APP_NAME, class_archive=spark.class_archive)
        )
