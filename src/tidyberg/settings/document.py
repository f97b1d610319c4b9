"""Reads tidyberg.yaml into plain data, replaces `${ENV}`, and remembers the line of every key."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from tidyberg.errors import ConfigurationError

KeyPath = tuple[str | int, ...]

# `$${` is a literal `${`. `${NAME}` must be set. `${NAME:-default}` has a default for an unset or empty variable.
_VARIABLE = re.compile(r"\$(?P<escaped>\$\{)|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}")


@dataclass(frozen=True)
class Document:
    """The data of a file, and the line of each key."""

    data: dict[str, Any]
    lines: Mapping[KeyPath, int]


def read_document(text: str, name: str, environ: Mapping[str, str]) -> Document:
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return Document({}, {})
        visitor = _NodeVisitor(name, environ, {}, [])
        visitor.visit(node, ())
        if visitor.unset:
            raise _unset_variables(name, visitor.unset)
        data = loader.construct_document(node)
    except yaml.YAMLError as error:
        raise _not_yaml(name, error) from None
    finally:
        loader.dispose()
    if not isinstance(data, dict):
        raise ConfigurationError(
            f"{name} must hold a mapping at its top, such as `catalog:`, not {type(data).__name__}."
        )
    return Document(data, visitor.lines)


def top_level_keys(text: str) -> set[str]:
    """Returns the keys at the top of a YAML file, or none if it holds no mapping."""
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError:
        return set()
    return {str(key.value) for key, _ in node.value} if isinstance(node, yaml.MappingNode) else set()


@dataclass
class _NodeVisitor:
    """Visits YAML nodes in place, before they become Python values, which have no line."""

    name: str
    environ: Mapping[str, str]
    lines: dict[KeyPath, int]
    unset: list[tuple[str, int]]

    def visit(self, node: yaml.Node, path: KeyPath) -> None:
        self.lines.setdefault(path, node.start_mark.line + 1)
        if isinstance(node, yaml.ScalarNode):
            self._substitute(node)
        elif isinstance(node, yaml.SequenceNode):
            for position, item in enumerate(node.value):
                self.visit(item, (*path, position))
        elif isinstance(node, yaml.MappingNode):
            self._visit_mapping(node, path)

    def _visit_mapping(self, node: yaml.MappingNode, path: KeyPath) -> None:
        seen: set[str] = set()
        for key_node, value_node in node.value:
            key = str(key_node.value)
            line = key_node.start_mark.line + 1
            if key in seen:
                raise ConfigurationError(f"{self.name}, line {line}: {key!r} is given twice.")
            seen.add(key)
            self.lines[(*path, key)] = line
            self.visit(value_node, (*path, key))

    def _substitute(self, node: yaml.ScalarNode) -> None:
        line = node.start_mark.line + 1

        def fill(match: re.Match[str]) -> str:
            if match["escaped"]:
                return "${"
            value = self.environ.get(match["name"])
            if match["default"] is not None:
                return value or match["default"]
            if value is None:
                self.unset.append((match["name"], line))
                return ""
            return value

        node.value = _VARIABLE.sub(fill, node.value)


def _unset_variables(name: str, unset: list[tuple[str, int]]) -> ConfigurationError:
    wanted = ", ".join(f"{variable} (line {line})" for variable, line in unset)
    noun = "an environment variable that is" if len(unset) == 1 else "environment variables that are"
    return ConfigurationError(
        f"{name} uses {noun} not set: {wanted}.",
        hint=f"Set it, or give a default: ${{{unset[0][0]}:-value}}.",
    )


def _not_yaml(name: str, error: yaml.YAMLError) -> ConfigurationError:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        line = error.problem_mark.line + 1
        return ConfigurationError(f"{name}, line {line} is not valid YAML: {error.problem or error.context}.")
    return ConfigurationError(f"{name} is not valid YAML: {error}.")
