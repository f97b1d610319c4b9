"""Every log line has its context fields, fits its format and contains no secret."""

import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders.tasks import NUMBERS, make_task, number_files
from tidyberg.execute.engine import CancelToken
from tidyberg.execute.inline import InlineEngine
from tidyberg.model.job import Progress, Stage
from tidyberg.model.report import Event, GroupFinished, Notice, StageStarted
from tidyberg.redact import redact_text
from tidyberg.settings.sections import Catalog, Spark
from tidyberg.settings.settings import Settings
from tidyberg.settings.telemetry import Telemetry
from tidyberg.storage.access import StorageAccess
from tidyberg.telemetry.context import about, current_fields
from tidyberg.telemetry.job_log import log_event
from tidyberg.telemetry.logs import known_secrets, set_up_logs

LOG = logging.getLogger("tidyberg.test")


@pytest.fixture(autouse=True)
def _logs_as_before() -> Iterator[None]:
    names = (None, "tidyberg", "uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi")
    loggers = [logging.getLogger(name) for name in names]
    before = [(logger, logger.handlers[:], logger.level, logger.propagate) for logger in loggers]
    yield
    logging.captureWarnings(False)
    for logger, handlers, level, propagate in before:
        logger.handlers[:] = handlers
        logger.setLevel(level)
        logger.propagate = propagate


def logs(
    log_format: str = "json", *, level: str = "info", settings: Settings | None = None, **environ: str
) -> io.StringIO:
    stream = io.StringIO()
    telemetry = Telemetry.model_validate({"log_format": log_format, "log_level": level})
    chosen = (settings or Settings()).model_copy(update={"telemetry": telemetry})
    set_up_logs(chosen, stream=stream, environ=environ)
    return stream


def test_json_line_has_context_fields() -> None:
    stream = logs()
    with about(request_id="r1"), about(job_id="j1", run_id="j1", table="lake.db.events", tenant=None):
        LOG.info("rewriting %d groups", 3)
    LOG.warning("after")
    first, second = (json.loads(line) for line in stream.getvalue().splitlines())
    assert first.pop("time").endswith("Z")
    assert first == {
        "level": "info",
        "logger": "tidyberg.test",
        "message": "rewriting 3 groups",
        "request_id": "r1",
        "job_id": "j1",
        "run_id": "j1",
        "table": "lake.db.events",
    }
    assert "job_id" not in second


def test_console_line_has_no_colours_without_a_terminal() -> None:
    stream = logs("console")
    with about(job_id="j1"):
        LOG.warning("the catalog is slow")
    line = stream.getvalue()
    assert line.endswith(" WARNING the catalog is slow  [job_id=j1]\n")
    assert "\x1b" not in line


def test_message_cannot_forge_a_log_line() -> None:
    for log_format in ("console", "json"):
        stream = logs(log_format)
        LOG.info("asked for %s", "x\n2026-01-01 00:00:00 INFO    all is well\x1b[2J")
        assert stream.getvalue().count("\n") == 1
        assert "\x1b" not in stream.getvalue()


def test_settings_set_the_level_and_libraries_only_warn() -> None:
    stream = logs("console", level="warning")
    LOG.info("quiet")
    logging.getLogger("pyiceberg").info("quiet")
    assert stream.getvalue() == ""
    stream = logs("console", level="debug")
    LOG.debug("loud")
    logging.getLogger("py4j").info("quiet")
    logging.getLogger("pyiceberg").warning("heard")
    assert [line.split()[3] for line in stream.getvalue().splitlines()] == ["loud", "heard"]


def test_uvicorn_uses_the_same_handler() -> None:
    own = logging.StreamHandler(io.StringIO())
    logging.getLogger("uvicorn.access").addHandler(own)
    stream = logs()
    logging.getLogger("uvicorn.access").info('%s - "%s %s HTTP/%s" %d', "127.0.0.1", "GET", "/health", "1.1", 200)
    logging.getLogger("uvicorn.error").error("boom")
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [(line["logger"], line["level"]) for line in lines] == [
        ("uvicorn.access", "info"),
        ("uvicorn.error", "error"),
    ]
    assert own not in logging.getLogger("uvicorn.access").handlers


SECRET = 'p4ss"w\\rd/Ωx'
SETTINGS = Settings(
    catalogs={
        "prod": Catalog.model_validate(
            {"uri": "http://c", "token": SECRET, "properties": {"s3.secret-access-key": "s3cr3tkey"}}
        )
    }
)


@pytest.mark.parametrize("log_format", ["console", "json"])
def test_secrets_of_settings_and_environment_are_masked(log_format: str) -> None:
    stream = logs(log_format, settings=SETTINGS, AWS_SECRET_ACCESS_KEY="from-environment", HOME="/home/ada")
    with about(table=f"x{SECRET}"):
        LOG.error("token %s, key %s, %r", SECRET, "s3cr3tkey", {"t": SECRET})
        LOG.error("env from-environment, http://u:hunter22@host/x?sig=abc, Bearer abcdefgh, /home/ada")
        try:
            raise ValueError(f"refused {SECRET} and s3cr3tkey")
        except ValueError:
            LOG.exception("failed with %s", SECRET)
    text = stream.getvalue()
    assert "/home/ada" in text
    assert "ValueError" in text
    for hidden in ("p4ss", "s3cr3tkey", "from-environment", "hunter22", "sig=abc", "abcdefgh"):
        assert hidden not in text


def test_secrets_are_found_anywhere_in_the_settings() -> None:
    assert "s3cr3tkey" in known_secrets(SETTINGS, {})
    assert SECRET in known_secrets(SETTINGS, {})
    conf = Settings(spark=Spark(conf={"spark.hadoop.fs.s3a.secret.key": "of-spark", "spark.ui.port": "4040"}))
    assert known_secrets(conf, {}) == ("of-spark",)


def test_engine_threads_have_the_context_of_the_job(tmp_path: Path) -> None:
    seen: list[str | None] = []

    class Looking(StorageAccess):
        def reveal(self) -> dict[str, str]:
            seen.append(current_fields().get("job_id"))
            return super().reveal()

    tasks = [make_task(number_files(tmp_path, 2, 10), NUMBERS, tmp_path / "out")]
    with about(job_id="j1"):
        list(InlineEngine().run(tasks, Looking(), cancel=CancelToken()))
    assert set(seen) == {"j1"}


def test_events_of_a_job_are_lines_of_the_log() -> None:
    stream = logs("console")
    events: list[Event] = [
        StageStarted(Stage.EXECUTE, "rewriting 2 groups"),
        GroupFinished(0, "day=1", Progress(groups_completed=1, groups_total=2)),
        Notice("warning", "group 1 is left out"),
    ]
    for event in events:
        log_event(event)
    lines = [line.split(maxsplit=2)[2].strip() for line in stream.getvalue().splitlines()]
    assert lines == [
        "INFO    execute: rewriting 2 groups",
        "INFO    group 0 rewritten (1 of 2)",
        "WARNING group 1 is left out",
    ]


def test_address_of_the_job_store_is_logged_without_password() -> None:
    for url, shown in (
        ("redis://redis.internal:6379/0", "redis://redis.internal:6379/0"),
        ("rediss://:open-sesame@redis.internal:6379/0", "rediss://:***@redis.internal:6379/0"),
        ("unix:///run/redis.sock", "unix:///run/redis.sock"),
    ):
        settings = Settings.model_validate({"store": {"url": url}})
        secrets = known_secrets(settings, {})
        assert redact_text(f"recorded in {redact_text(url)}", secrets) == f"recorded in {shown}"
        assert ("open-sesame" in url) == (redact_text("open-sesame", secrets) == "***")
