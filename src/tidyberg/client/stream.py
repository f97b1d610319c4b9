"""Parses server-sent events line by line."""

import json
from dataclasses import dataclass, field

from tidyberg.client.models import RemoteEvent


@dataclass
class EventReader:
    """Takes lines and returns an event when it is complete. `last` is the number of the last event."""

    last: int = 0
    _fields: dict[str, str] = field(default_factory=dict)

    def line(self, text: str) -> RemoteEvent | None:
        if text.startswith(":"):
            return None  # a keep-alive comment
        if text:
            name, _, value = text.partition(":")
            value = value.removeprefix(" ")
            before = self._fields.get(name)
            self._fields[name] = f"{before}\n{value}" if name == "data" and before is not None else value
            return None
        fields, self._fields = self._fields, {}
        if "data" not in fields:
            return None
        number = int(fields["id"]) if fields.get("id", "").isdigit() else None
        self.last = number if number is not None else self.last
        return RemoteEvent(number=number, kind=fields.get("event", "message"), data=json.loads(fields["data"]))
