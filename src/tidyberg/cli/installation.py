"""Implements the commands doctor and config."""

import os

import yaml
from rich.console import Group
from rich.text import Text

from tidyberg.cli.as_json import plain
from tidyberg.cli.doctor import examine
from tidyberg.cli.flags import CommonFlags
from tidyberg.cli.session import Session
from tidyberg.cli.show_catalogs import show_catalogs
from tidyberg.cli.show_doctor import show_checks
from tidyberg.errors import ConfigurationError
from tidyberg.redact import redact
from tidyberg.settings.load import find_config, usual_places
from tidyberg.settings.origins import catalogs_with_origins


def consult_doctor(common: CommonFlags) -> bool:
    """Shows every check. Returns True if none failed."""
    checks = examine(common)
    healthy = all(check.state != "fail" for check in checks)
    Session(common).show(show_checks(checks), {"ok": healthy, "checks": plain(checks)})
    return healthy


def show_settings(common: CommonFlags) -> None:
    session = Session(common)
    shown = redact(session.settings.model_dump(mode="json", exclude_none=True))  # I12
    catalogs = catalogs_with_origins(session.settings, common.config)
    text = Group(
        Text(yaml.safe_dump(shown, sort_keys=False, allow_unicode=True).rstrip()), Text(), show_catalogs(catalogs)
    )
    session.show(text, {**shown, "known_catalogs": plain(catalogs)}, soft_wrap=True)


def show_path(common: CommonFlags) -> None:
    found = find_config(common.config, os.environ)
    if found is None:
        places = ", ".join(str(place) for place in usual_places(os.environ))
        raise ConfigurationError("There is no settings file.", hint=f"Looked for $TIDYBERG_CONFIG, {places}.")
    Session(common).show(Text(str(found)), {"path": str(found)}, soft_wrap=True)
