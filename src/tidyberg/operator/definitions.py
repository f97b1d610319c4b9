"""The CustomResourceDefinitions of the policies. `tidyberg-operator crds` prints them."""

from typing import Any

from tidyberg.operator.policies import COMPACTION, GROUP, POLICY_KINDS, VERSION, PolicyKind

_TEXT = {"type": "string"}
_COUNT = {"type": "integer", "format": "int64"}
_TIME = {"type": "string", "format": "date-time"}


def definitions() -> list[dict[str, Any]]:
    return [_definition(kind) for kind in POLICY_KINDS]


def _definition(kind: PolicyKind) -> dict[str, Any]:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": kind.name,
                "listKind": f"{kind.name}List",
                "plural": kind.plural,
                "singular": kind.name.lower(),
                "shortNames": [kind.short_name],
                "categories": ["tidyberg"],
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": _COLUMNS,
                    "schema": {"openAPIV3Schema": _schema(kind)},
                }
            ],
        },
    }


_COLUMNS = [
    {"name": "Table", "type": "string", "jsonPath": ".spec.table"},
    {"name": "Schedule", "type": "string", "jsonPath": ".spec.schedule"},
    {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'},
    {"name": "Last run", "type": "string", "jsonPath": ".status.lastRun.status"},
    {"name": "Finished", "type": "date", "jsonPath": ".status.lastRun.finishedAt"},
    {"name": "Next run", "type": "string", "jsonPath": ".status.nextRun"},
    {"name": "Health", "type": "integer", "jsonPath": ".status.debt.healthScore"},
]


def _schema(kind: PolicyKind) -> dict[str, Any]:
    return {
        "type": "object",
        "description": kind.description,
        "required": ["spec"],
        "properties": {"spec": _spec(kind), "status": _STATUS},
    }


def _spec(kind: PolicyKind) -> dict[str, Any]:
    strategy = {"strategy": _text("The strategy of the compaction.")} if kind is COMPACTION else {}
    return {
        "type": "object",
        "required": ["table", "schedule"],
        "properties": {
            "table": _text("A table as namespace.name, or a pattern such as analytics.*.", minLength=1),
            "schedule": _text("A cron line with five fields.", minLength=1),
            "catalog": _text("A catalog of the service. By default its default catalog."),
            **strategy,
            "options": {
                "type": "object",
                "description": "The options of the jobs, as the REST API has them.",
                "x-kubernetes-preserve-unknown-fields": True,
            },
            "timezone": _text("The time zone of the cron line.", default="UTC"),
            "jitterSeconds": {
                "type": "integer",
                "minimum": 0,
                "maximum": 86_400,
                "default": 0,
                "description": "A job starts up to this many seconds late.",
            },
            "missed": {
                "type": "string",
                "enum": ["skip", "once", "all"],
                "default": "once",
                "description": "What to do about times that passed while the service was down.",
            },
            "suspend": {
                "type": "boolean",
                "default": False,
                "description": "The schedule stays in the service, but it does not run.",
            },
            "tenant": _text("The tenant of the jobs."),
            "priority": {"type": "integer", "default": 0, "description": "Jobs of higher priority run first."},
        },
    }


def _text(description: str, **more: Any) -> dict[str, Any]:
    return {"type": "string", "description": description, **more}


_STATUS = {
    "type": "object",
    "properties": {
        "observedGeneration": _COUNT,
        "scheduleId": _text("The id of the schedule in the service."),
        "fingerprint": _text("Identifies the spec that was applied and the schedule that it became."),
        "nextRun": {**_TIME, "description": "When the schedule is due next, without jitter."},
        "lastRun": {
            "type": "object",
            "description": "The newest job of the schedule.",
            "properties": {
                "jobId": _TEXT,
                "table": _TEXT,
                "status": _TEXT,
                "outcome": _TEXT,
                "startedAt": _TIME,
                "finishedAt": _TIME,
                "message": _text("The error of a failed job."),
            },
        },
        "debt": {
            "type": "object",
            "description": "How untidy the tables are.",
            "properties": {
                "tables": _COUNT,
                "measured": _COUNT,
                "worstTable": _TEXT,
                "healthScore": {**_COUNT, "description": "0 (untidy) to 100 (tidy), of the worst table."},
                "reasons": {"type": "array", "items": _TEXT},
                "files": _COUNT,
                "smallFiles": _COUNT,
                "deleteFiles": _COUNT,
                "bytes": _COUNT,
            },
        },
        "conditions": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
            "items": {
                "type": "object",
                "required": ["type", "status", "reason", "message", "lastTransitionTime"],
                "properties": {
                    "type": _TEXT,
                    "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
                    "reason": _TEXT,
                    "message": _TEXT,
                    "lastTransitionTime": _TIME,
                    "observedGeneration": _COUNT,
                },
            },
        },
    },
}
