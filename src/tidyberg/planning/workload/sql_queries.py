"""Finds the scans of one table in SQL statements, and the filter of each.

Filters reach a table through aliases, common table expressions and subqueries. A statement is tried in several
dialects, because a log does not say which engine wrote it.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from pyiceberg.schema import Schema
from sqlglot import ErrorLevel, ParseError, TokenError, parse
from sqlglot import expressions as sql
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.scope import Scope, traverse_scope

from tidyberg.model.table import TableRef
from tidyberg.model.workload import Condition, ScanFilter, Workload, all_of, without_null_tests
from tidyberg.planning.workload.conditions import ConditionReader, Node

DIALECTS = ("spark", "trino", "duckdb")
MAX_LENGTH = 100_000  # of one statement
_SHOWN = 120

# It warns about each statement that it cannot parse, once for each dialect. Here they are counted and shown instead.
logging.getLogger("sqlglot").setLevel(logging.ERROR)


@dataclass(frozen=True, slots=True)
class LoggedQuery:
    text: str
    count: float = 1.0  # how often it ran
    at: datetime | None = None  # when it ran, in UTC; None: now


class UnreadableQueryError(Exception):
    """A statement that no dialect can parse."""


@dataclass(frozen=True, slots=True)
class QueryReader:
    """Reads statements about one table. `as_of` stands for current_date and the like."""

    table: TableRef
    schema: Schema
    as_of: datetime
    dialect: str | None = None  # None: found out for each statement

    def workload(self, queries: Iterable[LoggedQuery]) -> Workload:
        filters: list[ScanFilter] = []
        unreadable: list[str] = []
        joined: dict[str, float] = {}
        count = elsewhere = 0
        for query in queries:
            count += 1
            try:
                found = self._scans(query)
            except UnreadableQueryError as error:
                unreadable.append(str(error))
                continue
            elsewhere += not found
            for scan in found:
                filters.append(ScanFilter(all_of(tuple(scan.conditions)), query.count, _shorten(query.text)))
                for column in scan.joined_on:
                    joined[column] = joined.get(column, 0.0) + query.count
        return Workload(tuple(filters), count, elsewhere, tuple(unreadable), joined)

    def _scans(self, query: LoggedQuery) -> list["_Scan"]:
        statement = _parse(query.text, self.dialect)
        try:
            return [scan for tree in _queries(statement) for scan in _Statement(self, tree, query.at).scans()]
        except (SqlglotError, RecursionError) as error:
            raise _unreadable(query.text, error) from None

    def is_the_table(self, node: sql.Table) -> bool:
        """Compares the last parts of names, without regard to case: catalog.namespace.table, or less of it."""
        parts = [part.name.lower() for part in node.parts]
        name = [part.lower() for part in self.table.identifier]
        full = [self.table.catalog.lower(), *name]
        if len(parts) <= len(name):
            return parts == name[len(name) - len(parts) :]
        return parts == full or parts[1:] == name  # engines have their own names for catalogs


@dataclass(slots=True)
class _Scan:
    conditions: list[Condition] = field(default_factory=list)
    joined_on: set[str] = field(default_factory=set)


_Place = tuple[int, str]  # a scope and the alias that the table has in it


@dataclass(frozen=True, slots=True)
class _Resolved:
    """A column of the table, as a name in a query means it."""

    place: _Place
    column: str
    is_filled: bool = False  # an outer join fills it with nulls, so a null says nothing about the table


class _Statement:
    """One statement with its scopes, each of which selects from tables or from other scopes."""

    def __init__(self, reader: QueryReader, tree: Node, at: datetime | None) -> None:
        self._reader = reader
        self._now = at or reader.as_of
        self._names = {name.lower(): name for name in reader.schema.column_names}
        self._scopes = traverse_scope(tree) if isinstance(tree, sql.Query) else []
        self._sources = {id(scope): _sources(scope) for scope in self._scopes}
        sources = [source for of_scope in self._sources.values() for source in of_scope.values()]
        self._uses = Counter(id(source) for source in sources if isinstance(source, Scope))
        self._found: dict[_Place, _Scan] = {
            (scope, alias): _Scan()
            for scope, of_scope in self._sources.items()
            for alias, source in of_scope.items()
            if isinstance(source, sql.Table) and reader.is_the_table(source)
        }

    def scans(self) -> list[_Scan]:
        if not self._found:
            return []
        for scope in self._scopes:
            for conjunct in _conjuncts(scope):
                self._take(scope, conjunct)
        return list(self._found.values())

    def _take(self, scope: Scope, conjunct: Node) -> None:
        own = [one for one in conjunct.find_all(sql.Column) if one.find_ancestor(sql.Query) is scope.expression]
        places = {id(column): self._resolve(scope, column) for column in own}
        resolved = [found for found in places.values() if found is not None]
        tables = {found.place for found in resolved}
        if (
            isinstance(conjunct, sql.EQ)
            and len(own) == 2
            and all(isinstance(one, sql.Column) for one in _sides(conjunct))
        ):
            for found in resolved:
                self._found[found.place].joined_on.add(found.column)
            return
        if len(tables) != 1:
            return

        def resolve(node: Node) -> str | None:
            column = node if isinstance(node, sql.Column) else node.find(sql.Column)
            found = None if column is None else places.get(id(column))
            if found is None or isinstance(node, sql.Column):
                return None if found is None else found.column
            return self._field(f"{found.column}.{'.'.join(part.name for part in node.parts[1:])}")

        condition = ConditionReader(self._reader.schema, self._now, resolve).read(conjunct)
        if any(found.is_filled for found in resolved):
            condition = without_null_tests(condition)
        self._found[tables.pop()].conditions.append(condition)

    def _resolve(self, scope: Scope, column: sql.Column, depth: int = 0) -> _Resolved | None:
        """Returns the scan and the column of the table that a name refers to, also through inner selects."""
        if depth > 20:
            return None
        names = [part.name for part in column.parts]
        aliases = {alias.lower(): alias for alias in self._sources[id(scope)]}
        if len(names) > 1 and names[0].lower() in aliases:
            return self._in_source(scope, aliases[names[0].lower()], ".".join(names[1:]), depth)
        if len(names) > 1:  # table.column with namespaces, or a field of a struct
            for split in range(len(names) - 1, 0, -1):
                if names[split - 1].lower() in aliases and split > 1:
                    return self._in_source(scope, aliases[names[split - 1].lower()], ".".join(names[split:]), depth)
        found = [self._in_source(scope, alias, ".".join(names), depth) for alias in aliases.values()]
        known = [one for one in found if one is not None]
        return known[0] if len(known) == 1 else None

    def _in_source(self, scope: Scope, alias: str, name: str, depth: int) -> _Resolved | None:
        found = self._unfilled(scope, alias, name, depth)
        if found is not None and alias in _filled_with_nulls(scope):
            return replace(found, is_filled=True)
        return found

    def _unfilled(self, scope: Scope, alias: str, name: str, depth: int) -> _Resolved | None:
        source = self._sources[id(scope)][alias]
        inner_select: Node = source.expression if isinstance(source, Scope) else None
        if isinstance(source, sql.Table):
            place, field_name = (id(scope), alias), self._field(name)
            return _Resolved(place, field_name) if place in self._found and field_name is not None else None
        if not isinstance(source, Scope) or self._uses[id(source)] > 1 or not _passes_filters(inner_select):
            return None  # a filter on one use of a shared expression says nothing about the other
        for projection in inner_select.selects:
            if isinstance(projection, sql.Star) or projection.is_star:
                found = self._resolve(source, sql.column(name), depth + 1) if "." not in name else None
                if found is not None:
                    return found
            elif projection.alias_or_name.lower() == name.lower():
                inner = projection.unalias()
                return self._resolve(source, inner, depth + 1) if isinstance(inner, sql.Column) else None
        return None

    def _field(self, name: str) -> str | None:
        return self._names.get(name.lower())


def statements(text: str) -> Iterator[str]:
    """Splits a file into statements at semicolons, but not inside of quotes and comments."""
    start, at, end = 0, 0, len(text)
    while at < end:
        two = text[at : at + 2]
        if two == "--":
            at = _after(text, "\n", at)
        elif two == "/*":
            at = _after(text, "*/", at + 2)
        elif text[at] in "'\"`":
            at = _after_quote(text, text[at], at + 1)
        elif text[at] == ";":
            yield from _nonempty(text[start:at])
            at += 1
            start = at
        else:
            at += 1
    yield from _nonempty(text[start:])


def _after(text: str, mark: str, at: int) -> int:
    found = text.find(mark, at)
    return len(text) if found < 0 else found + len(mark)


def _after_quote(text: str, mark: str, at: int) -> int:
    """In Spark, a backslash escapes the mark; elsewhere it may end a text, which no letter can follow."""
    while (end := _after(text, mark, at)) < len(text) and text[end - 2] == "\\" and text[end].isalnum():
        at = end
    return end


def _nonempty(statement: str) -> Iterator[str]:
    lines = (line for line in statement.splitlines() if not line.strip().startswith("--"))
    if any(line.strip() for line in lines):
        yield statement.strip()


def _parse(text: str, dialect: str | None) -> Node:
    if len(text) > MAX_LENGTH:
        raise UnreadableQueryError(f"{_shorten(text)}: it is longer than {MAX_LENGTH:,} characters")
    first: Exception | None = None
    for one in [dialect] if dialect else _likely(text):
        try:
            trees = [tree for tree in parse(text, read=one, error_level=ErrorLevel.RAISE) if tree is not None]
        except (ParseError, TokenError, RecursionError, ValueError) as error:
            first = first or error
            continue
        if len(trees) == 1 and not isinstance(trees[0], sql.Command):
            return trees[0]
        words = "it is a command, not a query" if len(trees) == 1 else "it is not one statement"
        first = first or UnreadableQueryError(words)
    assert first is not None
    raise _unreadable(text, first)


def _likely(text: str) -> Sequence[str]:
    """Spark quotes names with backticks and texts with double quotes; the others quote names with double quotes."""
    return DIALECTS if "`" in text or '"' not in text else (*DIALECTS[1:], DIALECTS[0])


def _unreadable(text: str, error: Exception) -> UnreadableQueryError:
    words = "it is nested too deeply" if isinstance(error, RecursionError) else str(error).partition("\n")[0]
    return UnreadableQueryError(f"{_shorten(text)}: {_shorten(words)}")


def _shorten(text: str) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) <= _SHOWN else f"{plain[:_SHOWN]}…"


def _queries(statement: Node) -> Iterator[Node]:
    """The queries of a statement, also of `create table as` and `insert into … select`.

    An update and a delete read the table that they change, so they count as a select with their condition. So does a
    merge, which joins that table.
    """
    if isinstance(statement, sql.Query):
        yield statement
    elif isinstance(statement, sql.Update | sql.Delete):
        where = statement.args.get("where")
        if isinstance(statement.this, sql.Table):
            select = sql.select("*").from_(statement.this.copy())
            yield select.where(where.this.copy()) if where is not None else select
    elif isinstance(statement, sql.Merge) and isinstance(statement.this, sql.Table):
        # Rows of the table that match nothing are read too if a clause is about them.
        keeps_all = any(clause.args.get("source") for clause in statement.args["whens"].expressions)
        yield (
            sql.select("*")
            .from_(statement.this.copy())
            .join(statement.args["using"].copy(), on=statement.args["on"].copy(), join_type="left" if keeps_all else "")
        )
    elif isinstance(statement, sql.Create | sql.Insert) and isinstance(statement.expression, sql.Query):
        yield statement.expression.copy()


def _sources(scope: Scope) -> dict[str, sql.Table | Scope]:
    """Returns what a scope selects from, by alias. The list of sqlglot lacks the right side of semi and anti joins."""
    kept = {alias: source for alias, (_, source) in scope.selected_sources.items()}
    others = {name: scope.sources[name] for name, _ in scope.references if name in scope.semi_or_anti_join_tables}
    return {**kept, **others}


def _filled_with_nulls(scope: Scope) -> set[str]:
    """Returns the aliases whose columns an outer join of the scope fills with nulls where nothing matches."""
    expression, aliases = scope.expression, set(_sources(scope))
    if not isinstance(expression, sql.Select):
        return set()
    joins: list[Node] = expression.args.get("joins") or []
    in_parentheses = (one for one in expression.find_all(sql.Join) if one.find_ancestor(sql.Select) is expression)
    if any(one.side and one.parent is not expression for one in in_parentheses):
        return aliases  # which of them is not worth finding out
    filled: set[str] = set()
    kept = aliases - {alias for join in joins for alias in _aliases(join)}
    for join in joins:
        if join.side in ("RIGHT", "FULL"):
            filled |= kept
        if join.side in ("LEFT", "FULL"):
            filled |= _aliases(join)
        kept |= _aliases(join)
    return filled


def _aliases(join: sql.Join) -> set[str]:
    """Returns the alias of what is joined, or those of the tables inside of parentheses."""
    alias = join.alias_or_name
    return {alias} if alias else {table.alias_or_name for table in join.this.find_all(sql.Table)}


def _conjuncts(scope: Scope) -> Iterator[Node]:
    expression = scope.expression
    if not isinstance(expression, sql.Select):
        return
    where = expression.args.get("where")
    if where is not None:
        yield from _split(where.this)
    for join in expression.args.get("joins") or ():
        # The condition of an outer or an anti join does not filter the rows of the side that is kept.
        if (on := join.args.get("on")) is not None and not join.side and join.kind != "ANTI":
            yield from _split(on)


def _split(node: Node) -> Iterator[Node]:
    if isinstance(node, sql.Paren):
        yield from _split(node.this)
    elif isinstance(node, sql.And):
        for part in node.flatten():
            yield from _split(part)
    else:
        yield node


def _sides(node: Node) -> tuple[Node, Node]:
    return node.this, node.expression


def _passes_filters(select: Node) -> bool:
    """Returns True if an engine may filter before this select: it has no limit, window or union."""
    if not isinstance(select, sql.Select) or select.args.get("limit") or select.args.get("qualify"):
        return False
    return not any(projection.find(sql.Window) for projection in select.selects)
