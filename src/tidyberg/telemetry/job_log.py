"""Writes the events of a running job to the log."""

import logging

from tidyberg.model.report import Event, GroupFinished, Notice, StageStarted

_LOG = logging.getLogger("tidyberg.jobs")


def log_event(event: Event) -> None:
    if isinstance(event, StageStarted):
        _LOG.info("%s: %s", event.stage.value, event.message)
    elif isinstance(event, GroupFinished):
        progress = event.progress
        _LOG.info("group %d rewritten (%d of %d)", event.group_id, progress.groups_completed, progress.groups_total)
    elif isinstance(event, Notice):
        _LOG.log(logging.WARNING if event.level == "warning" else logging.INFO, "%s", event.message)
