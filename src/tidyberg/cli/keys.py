"""Creates an API key and shows it once."""

from datetime import datetime

import yaml
from pydantic import ValidationError
from rich.text import Text

from tidyberg.cli.flags import CommonFlags
from tidyberg.cli.session import Session
from tidyberg.errors import BadInput
from tidyberg.model.principal import Role
from tidyberg.settings.access import ApiKey, hash_key, new_key
from tidyberg.settings.problems import describe_problem


def make_key(common: CommonFlags, name: str, role: Role, tenant: str | None, expires: datetime | None) -> None:
    key = new_key()
    try:
        entry = ApiKey(name=name, hash=hash_key(key), role=role, tenant=tenant, expires=expires)
    except ValidationError as error:
        raise BadInput(" ".join(describe_problem(ApiKey, problem) for problem in error.errors())) from None
    shown = entry.model_dump(mode="json", exclude_none=True)
    settings = yaml.safe_dump({"access": {"api_keys": [shown]}}, sort_keys=False, allow_unicode=True)
    words = (
        f"{key}\n\nGive this key to {name}. It is not stored and cannot be shown again.\n"
        f"Add this to the keys in tidyberg.yaml:\n\n{settings.rstrip()}"
    )
    Session(common).show(Text(words, no_wrap=True, overflow="ignore"), {"key": key, "entry": shown})
