"""Reads the filters of scan reports, and reduces them to shapes: columns and operators without values.

Java clients replace the values of a filter by descriptions such as "(2-digit-int)" before they report it.
"""

import json
from typing import Any

from tidyberg.errors import BadInput
from tidyberg.model.workload import AllOf, AnyOf, Anything, Comparison, Condition, Operator, all_of, any_of, comparisons

MOST_COMPARISONS = 50  # of one filter; larger filters are kept as one that rules nothing out
_MOST_NAME = 255
_MOST_LEVELS = 100
_OPERATORS = {
    "eq": Operator.EQ,
    "in": Operator.IN,
    "lt": Operator.LT,
    "lt-eq": Operator.LE,
    "gt": Operator.GT,
    "gt-eq": Operator.GE,
    "is-null": Operator.IS_NULL,
    "not-null": Operator.NOT_NULL,
    "starts-with": Operator.STARTS_WITH,
}
_UNDECIDED = frozenset(("not-eq", "not-in", "is-nan", "not-nan", "not-starts-with"))
_NEGATED = {"lt": "gt-eq", "lt-eq": "gt", "gt": "lt-eq", "gt-eq": "lt", "is-null": "not-null", "not-null": "is-null"}


def report_condition(document: Any) -> Condition:
    """Returns the condition of a report's filter without its values. Raises BadInput if it is no expression."""
    try:
        condition = _condition(document, negated=False, level=0)
    except _TooDeepError:
        return Anything()
    condition = _without_implied(condition)
    return condition if sum(1 for _ in comparisons(condition)) <= MOST_COMPARISONS else Anything()


class _TooDeepError(Exception):
    pass


def _without_implied(condition: Condition) -> Condition:
    """Drops `a is not null` beside another comparison of a. Spark adds it to every filter."""
    if isinstance(condition, AnyOf):
        return any_of(_without_implied(one) for one in condition.parts)
    if not isinstance(condition, AllOf):
        return condition
    single = [one for one in condition.parts if isinstance(one, Comparison)]
    compared = {one.column for one in single if not one.operator.is_unary}
    return all_of(
        _without_implied(one)
        for one in condition.parts
        if not (isinstance(one, Comparison) and one.operator is Operator.NOT_NULL and one.column in compared)
    )


def _condition(node: Any, *, negated: bool, level: int) -> Condition:
    if level > _MOST_LEVELS:
        raise _TooDeepError
    if isinstance(node, bool):
        return Anything()
    if not isinstance(node, dict) or not isinstance(node.get("type"), str):
        raise _no_expression()
    kind = node["type"].replace("_", "-").lower()
    if kind in ("and", "or"):
        parts = tuple(_condition(node.get(side), negated=negated, level=level + 1) for side in ("left", "right"))
        return all_of(parts) if (kind == "and") is not negated else any_of(parts)
    if kind == "not":
        return _condition(node.get("child"), negated=not negated, level=level + 1)
    if kind in ("true", "false", "literal"):
        return Anything()
    kind = _NEGATED.get(kind, "not-eq") if negated and kind in _OPERATORS else kind
    if kind in _UNDECIDED:
        return Anything()
    if kind not in _OPERATORS:
        raise _no_expression()
    column = _column(node.get("term"))
    operator = _OPERATORS[kind]
    return Anything() if column is None else Comparison(column, operator, () if operator.is_unary else None)


def _column(term: Any) -> str | None:
    """Returns the name of a column. A transform such as bucket[16] says nothing about the order of its values."""
    if isinstance(term, dict) and term.get("type") == "reference":
        term = term.get("term")
    if isinstance(term, dict) and term.get("type") == "transform":
        return None
    if not isinstance(term, str) or not term or len(term) > _MOST_NAME:
        raise _no_expression()
    return term


def condition_shape(condition: Condition) -> str:
    """Returns a text that is equal for filters that differ only in values and in the order of their parts."""
    return json.dumps(_shape(condition), separators=(",", ":"))


def _shape(condition: Condition) -> Any:
    if isinstance(condition, Comparison):
        return {"column": condition.column, "operator": condition.operator.value}
    if isinstance(condition, AllOf | AnyOf):
        parts = {json.dumps(one): one for one in map(_shape, condition.parts)}
        return {"all" if isinstance(condition, AllOf) else "any": [parts[key] for key in sorted(parts)]}
    return None


def shape_condition(text: str) -> Condition:
    """Returns the condition of a shape, without values."""
    return _of_shape(json.loads(text))


def _of_shape(shape: Any) -> Condition:
    if shape is None:
        return Anything()
    if "column" in shape:
        operator = Operator(shape["operator"])
        return Comparison(shape["column"], operator, () if operator.is_unary else None)
    name, join = ("all", all_of) if "all" in shape else ("any", any_of)
    return join(tuple(map(_of_shape, shape[name])))


def shape_words(condition: Condition) -> str:
    """Returns a shape for people: `a = ? and b between`."""
    if isinstance(condition, Comparison):
        return f"{condition.column} {condition.operator.value}{'' if condition.operator.is_unary else ' ?'}"
    if isinstance(condition, AllOf | AnyOf):
        word = " and " if isinstance(condition, AllOf) else " or "
        nested = (AnyOf,) if isinstance(condition, AllOf) else (AllOf,)
        return word.join(
            f"({shape_words(one)})" if isinstance(one, nested) else shape_words(one) for one in condition.parts
        )
    return "no filter"


def _no_expression() -> BadInput:
    return BadInput(
        "The filter of the report is not an expression of Iceberg.",
        hint='Send it as JSON, such as {"type": "eq", "term": "id", "value": "(2-digit-int)"}.',
    )
