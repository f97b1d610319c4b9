"""Shows known catalogs as YAML comments below the settings."""

from collections.abc import Sequence

from rich.text import Text

from tidyberg.settings.origins import KnownCatalog


def show_catalogs(catalogs: Sequence[KnownCatalog]) -> Text:
    if not catalogs:
        return Text("# known catalogs: none", style="dim")
    lines = ["# known catalogs"]
    for catalog in catalogs:
        which = " (default)" if catalog.is_default else ""
        described = ", ".join(word for word in (catalog.type, catalog.uri) if word)
        lines.append(f"#   {catalog.name}{which}: {described}" if described else f"#   {catalog.name}{which}")
        lines += [
            f"#     {'from' if number == 0 else 'also in'} {origin}" for number, origin in enumerate(catalog.origins)
        ]
    return Text("\n".join(lines), style="dim")
