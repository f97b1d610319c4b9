"""What manifests and the chart have in common."""

import re
from typing import Any

KUBERNETES = "1.37"  # the version whose schemas are used


def check_hardened(pod: dict[str, Any]) -> None:
    """Checks that the pod has no privileges and a read-only root, and can write where it must."""
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in pod["containers"]:
        context = container["securityContext"]
        assert (context["readOnlyRootFilesystem"], context["allowPrivilegeEscalation"]) == (True, False)
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert "/tmp" in [mount["mountPath"] for mount in container["volumeMounts"]]


def compose_environment(service: dict[str, Any]) -> dict[str, str]:
    """Returns the variables of a service of a compose file, with the defaults that Compose fills in."""
    pairs = (line.split("=", 1) for line in service["environment"])
    return {name: re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", value) for name, value in pairs}
