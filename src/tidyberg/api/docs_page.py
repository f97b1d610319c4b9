"""Renders the OpenAPI document as plain HTML, without scripts or external requests."""

import html
import json
from collections.abc import Iterator, Mapping
from typing import Any

_STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1b2733;background:#fff}
h1{margin-bottom:0}h2{margin-top:2.5rem;border-bottom:1px solid #d5dce3}code,pre{font:13px/1.5 ui-monospace,monospace}
pre{background:#f3f6f9;padding:.8rem;overflow:auto;border-radius:6px}details{border:1px solid #d5dce3;border-radius:6px;
margin:.5rem 0;padding:.5rem .8rem}summary{cursor:pointer}b.m{display:inline-block;min-width:4.5rem}table{
border-collapse:collapse;width:100%}td,th{text-align:left;vertical-align:top;padding:.25rem .6rem .25rem 0}
@media(prefers-color-scheme:dark){body{background:#12181f;color:#dbe4ec}pre{background:#1c2530}
details,h2{border-color:#34414e}a{color:#8cc4ff}}
"""
Document = Mapping[str, Any]


def docs_page(document: Document) -> str:
    info = document["info"]
    return "".join(
        (
            "<!doctype html><html lang=en><meta charset=utf-8>",
            '<meta name=viewport content="width=device-width,initial-scale=1">',
            f"<title>{_text(info['title'])} API</title><style>{_STYLE}</style>",
            f"<h1>{_text(info['title'])} API</h1><p>{_text(info['version'])} · {_text(info['summary'])} ",
            "<a href=/openapi.json>openapi.json</a></p>",
            *(f"<p>{_text(paragraph)}</p>" for paragraph in info["description"].strip().split("\n\n")),
            *(part for tag in document["tags"] for part in _section(document, tag)),
            "</html>",
        )
    )


def _section(document: Document, tag: Mapping[str, str]) -> Iterator[str]:
    yield f"<h2 id={_text(tag['name'])}>{_text(tag['name'].capitalize())}</h2><p>{_text(tag['description'])}</p>"
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            if tag["name"] in operation.get("tags", ()):
                yield from _operation(document, path, method, operation)


def _operation(document: Document, path: str, method: str, operation: Document) -> Iterator[str]:
    yield f"<details id={_text(operation['operationId'])}><summary><b class=m>{method.upper()}</b> "
    yield f"<code>{_text(path)}</code> {_text(operation['summary'])}</summary>"
    yield f"<p>{_text(operation.get('description', ''))}</p>"
    if parameters := operation.get("parameters"):
        yield "<h4>Parameters</h4><table>"
        for one in parameters:
            words = one.get("description") or one["schema"].get("description", "")
            yield f"<tr><td><code>{_text(one['name'])}</code><td>{_text(one['in'])}<td>{_text(words)}"
        yield "</table>"
    for media in operation.get("requestBody", {}).get("content", {}).values():
        yield "<h4>Body</h4>" + _shape(document, media["schema"])
    yield "<h4>Responses</h4>"
    for status, answer in operation["responses"].items():
        yield f"<p><b>{_text(status)}</b> {_text(answer['description'])}</p>"
        if status.startswith("2"):
            for media in answer.get("content", {}).values():
                yield _shape(document, media["schema"])
    yield "</details>"


def _shape(document: Document, schema: Document) -> str:
    """Returns the fields of a schema and its first example."""
    found = _resolve(document, schema)
    rows = [
        f"<tr><td><code>{_text(name)}</code><td>{_text(_kind(field))}<td>{_text(field.get('description', ''))}"
        for name, field in found.get("properties", {}).items()
    ]
    table = f"<table>{''.join(rows)}</table>" if rows else ""
    examples = found.get("examples")
    example = f"<pre>{_text(json.dumps(examples[0], indent=2))}</pre>" if examples else ""
    return table + example


def _kind(schema: Document) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_kind(one) for one in schema["anyOf"]))
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    return " or ".join(map(str, schema["enum"])) if "enum" in schema else str(schema.get("type", "anything"))


def _resolve(document: Document, schema: Document) -> Document:
    for one in (schema, *schema.get("anyOf", ())):
        if "$ref" in one:
            found: Document = document["components"]["schemas"][one["$ref"].rpartition("/")[2]]
            return found
    return schema


def _text(words: object) -> str:
    return html.escape(str(words))
