"""One run of a command: its settings, its consoles, and the words that lead to it."""

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from rich.console import Console, RenderableType

from tidyberg.cli.flags import CommonFlags, EngineFlags
from tidyberg.errors import TidybergError
from tidyberg.settings.load import load_settings
from tidyberg.settings.settings import Settings

_WIDTH_WITHOUT_TERMINAL = 120


def standard_output() -> Console:
    """Results; plain text of a fixed width when nobody looks at a terminal."""
    return Console(file=sys.stdout, width=None if sys.stdout.isatty() else _WIDTH_WITHOUT_TERMINAL, highlight=False)


def standard_error() -> Console:
    """Progress, notices and errors."""
    return Console(file=sys.stderr, width=None if sys.stderr.isatty() else _WIDTH_WITHOUT_TERMINAL, highlight=False)


@dataclass(frozen=True)
class Session:
    common: CommonFlags
    engine_flags: EngineFlags = field(default_factory=EngineFlags)
    adjust: Callable[[Settings], Settings] = lambda settings: settings

    @cached_property
    def settings(self) -> Settings:
        return self.engine_flags.applied_to(self.adjust(load_settings(self.common.config)))

    def show(self, text: RenderableType, document: Any, *, soft_wrap: bool = False) -> None:
        """The result: text for people, or the document for programs. With `soft_wrap` no line is ever broken or cut."""
        if self.common.json:
            from tidyberg.cli.as_json import print_json

            print_json(document)
        else:
            standard_output().print(text, soft_wrap=soft_wrap)


THIS_PROCESS = "this process"


def engine_label(settings: Settings, *, inline: bool = False) -> str:
    """Where a job runs; `inline`: one that is better run here, where there is a choice."""
    if settings.engine == "inline" or (settings.engine == "auto" and inline):
        return THIS_PROCESS
    if settings.spark.connect:
        return settings.spark.connect.split(";")[0]
    return settings.spark.master.replace("local[*]", f"local[{os.cpu_count() or 1}]")


def launch_spark(settings: Settings) -> None:
    """Begin to start the JVM that a job on this machine's own Spark needs, before anything else is imported."""
    spark = settings.spark
    if settings.engine != "spark" or spark.connect is not None:
        return
    from tidyberg.execute.engine import APP_NAME
    from tidyberg.execute.spark.launch import launch_in_background
    from tidyberg.execute.spark.session import engine_launch, retrying_master

    with suppress(TidybergError):  # whatever it is, the job will say it
        master = retrying_master(spark.master)
        launch_in_background(
            *engine_launch(master, spark.driver_memory, spark.conf, APP_NAME, class_archive=spark.class_archive)
        )
