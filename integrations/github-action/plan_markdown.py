"""Writes plans as Markdown, for a comment on a pull request."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from tidyberg.cli.formatting import count, dollars, partition_label, plural, size

MOST_CHARACTERS = 65_536  # of a comment on GitHub
SHOWN_PARTITIONS = 12
_PLAIN = frozenset(" .,-=/()%$→–")

Document = Mapping[str, Any]  # a plan, or a table with its error


def marker(title: str) -> str:
    """Returns an invisible line, by which the comment is found again."""
    return f"<!-- tidyberg-plan {hashlib.sha256(title.encode()).hexdigest()[:16]} -->"


def comment(title: str, documents: Sequence[Document], most: int = MOST_CHARACTERS) -> str:
    """Returns a summary of all tables, and the reasons of each. Reasons are left out where the comment is too long."""
    parts = [marker(title), f"### {_text(title)}\n", *_summary(documents)]
    closing = "\nNothing was changed. `tidyberg compact` does what the plan says."
    note = "\nMore reasons are left out, because a comment is limited. `tidyberg plan` shows them."
    for document in documents:
        details = _details(document)
        if len("\n".join([*parts, *details, note, closing])) > most:
            parts.append(note)
            break
        parts += details
    shown = "\n".join([*parts, closing])
    return (
        shown
        if len(shown) <= most
        else f"{marker(title)}\n### {_text(title)}\n\n{plural(len(documents), 'table')}.{note}"
    )


def _summary(documents: Sequence[Document]) -> list[str]:
    rows = ["| table | health | plan | read | price | pays back |", "|---|--:|---|--:|--:|---|"]
    return rows + [f"| {' | '.join(_row(document))} |" for document in documents]


def _row(document: Document) -> tuple[str, ...]:
    name = _code(_name(document))
    if (error := document.get("error")) is not None:
        return (name, "–", f"**failed**: {_text(error['message'])}", "–", "–", "–")
    health, estimate = f"{document['health']}/100", document["estimate"]
    if not document["groups"] and not document["deletes"]:
        return (name, health, "nothing to do", "–", "–", "–")
    change = f"{count(estimate['input_files'])} → {count(estimate['output_files'])} files"
    price = estimate["request_dollars"] + estimate["compute_dollars"]
    scans = estimate["payback_scans"]
    pays = "not in requests alone" if scans is None else f"after {plural(scans, 'scan')}"
    return (name, health, change, size(estimate["bytes_read"]), dollars(price), pays)


def _details(document: Document) -> list[str]:
    partitions = sorted(document.get("partitions", ()), key=_importance)
    if not partitions:
        return []
    shown = partitions[:SHOWN_PARTITIONS]
    lines = [
        f"\n<details><summary>{_code(_name(document))}: reasons</summary>\n",
        "| partition | files | verdict | reason | price |",
        "|---|--:|---|---|--:|",
    ]
    for partition in shown:
        verdict = partition["verdict"]
        rewrite = verdict["kind"] == "rewrite"
        lines.append(
            f"| {_code(partition_label(partition['partition_path']))} | {count(partition['files'])} "
            f"| {'rewrite' if rewrite else 'skip'} | {_text(verdict['reason'])} "
            f"| {dollars(verdict['dollars']) if rewrite else '–'} |"
        )
    if len(partitions) > len(shown):
        lines.append(f"\n… {plural(len(partitions) - len(shown), 'more partition')}")
    lines += [f"\nwarning: {_text(words)}" for words in document.get("warnings", ())]
    return [*lines, "\n</details>"]


def _importance(partition: Document) -> tuple[bool, float]:
    return (partition["verdict"]["kind"] != "rewrite", -partition["score"])


def _name(document: Document) -> str:
    table = document["table"]
    return table if isinstance(table, str) else ".".join([*table["namespace"], table["name"]])


def _text(words: str) -> str:
    """Names and reasons come from the lake. As character references, they are no Markdown, no HTML and no mention."""
    one_line = " ".join(words.split())
    return "".join(each if each.isalnum() or each in _PLAIN else f"&#{ord(each)};" for each in one_line)


def _code(words: str) -> str:
    return f"<code>{_text(words)}</code>"
