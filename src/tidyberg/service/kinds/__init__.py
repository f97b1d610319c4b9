"""The kinds of jobs that a service runs. A further kind is an object in a module of its own, listed here."""

from collections.abc import Mapping

from tidyberg.errors import Unsupported
from tidyberg.service.kinds.base import JobKind
from tidyberg.service.kinds.compact import Compact
from tidyberg.service.kinds.expire import Expire
from tidyberg.service.kinds.maintain import Maintain

KINDS: Mapping[str, JobKind] = {kind.name: kind for kind in (Compact(), Expire(), Maintain())}


def kind_of(name: str) -> JobKind:
    """Raises Unsupported for a kind that only a newer version of another replica knows."""
    if name not in KINDS:
        raise Unsupported(
            f"This version does not know jobs of kind {name[:100]!r}.", hint=f"Known: {', '.join(KINDS)}."
        )
    return KINDS[name]
