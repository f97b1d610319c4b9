"""Profiles: settings for each environment, such as development, staging and production."""

from collections.abc import Mapping
from typing import Any

from tidyberg.errors import ConfigurationError
from tidyberg.settings.operations import BUILT_IN_PROFILES

PROFILE_VARIABLE = "TIDYBERG_PROFILE"
_PROFILES = "profiles"


def profile_layers(data: Mapping[str, Any], environ: Mapping[str, str]) -> list[Mapping[str, Any]]:
    """Returns what the chosen profile adds to the settings of a file. Later layers win."""
    name = environ.get(PROFILE_VARIABLE, "").strip()
    if not name:
        return []
    of_file = data.get(_PROFILES)
    own = of_file.get(name) if isinstance(of_file, Mapping) else None
    if own is None and name not in BUILT_IN_PROFILES:
        known = sorted({*BUILT_IN_PROFILES, *(of_file if isinstance(of_file, Mapping) else ())})
        raise ConfigurationError(
            f"${PROFILE_VARIABLE} names the profile {name!r}, which does not exist.", hint=f"Known: {', '.join(known)}."
        )
    if own is not None and not isinstance(own, Mapping):
        raise ConfigurationError(f"profiles.{name} should be an object with keys and values.")
    if own is not None and _PROFILES in own:
        raise ConfigurationError(f"profiles.{name} cannot have profiles of its own.")
    return [BUILT_IN_PROFILES.get(name, {}), own or {}]
