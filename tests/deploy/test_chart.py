"""The Helm chart, rendered by helm: `make test-helm`. Building helm takes minutes, so a normal run leaves it out."""

import os
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.deploy.manifests import KUBERNETES, check_hardened
from tests.servers.go_binary import go_binary
from tidyberg.settings.load import load_settings

pytestmark = pytest.mark.skipif("TEST_HELM" not in os.environ, reason="make test-helm runs it")

HELM = ("helm", "helm.sh/helm/v3/cmd/helm", "v3.22.0")
CHART = Path(__file__).parents[2] / "deploy" / "helm" / "tidyberg"
# Kinds of other projects, whose definitions a cluster has or has not.
FOREIGN = {"ServiceMonitor", "ExternalSecret"}
EVERYTHING = """
autoscaling: {enabled: true}
serviceMonitor: {enabled: true, labels: {release: prometheus}}
operator: {enabled: true, namespaces: [lake, sales]}
secrets: {environment: [storage-secret]}
networkPolicy: {from: [{namespaceSelector: {matchLabels: {team: data}}}]}
serviceAccount: {annotations: {eks.amazonaws.com/role-arn: "arn:aws:iam::1:role/tidyberg"}}
externalSecrets:
  - name: catalog-secret
    storeRef: {name: vault, kind: ClusterSecretStore}
    data: [{secretKey: uri, remoteRef: {key: lake/catalog, property: uri}}]
nodeSelector: {disk: fast}
tolerations: [{key: spot, operator: Exists}]
podAnnotations: {team: data}
imagePullSecrets: [{name: registry}]
"""
MINIMAL = (
    "{replicas: 1, redis: {enabled: false}, podDisruptionBudget: {enabled: false}, networkPolicy: {enabled: false}}"
)
OTHER_REDIS = "redis: {enabled: false, urlSecret: redis-secret}"


def helm(*arguments: str, values: str, directory: Path) -> subprocess.CompletedProcess[str]:
    given = directory / "values.yaml"
    given.write_text(values)
    command = [go_binary(*HELM), *arguments, str(CHART), "--values", str(given), "--kube-version", KUBERNETES]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def rendered(values: str, directory: Path) -> list[dict[str, Any]]:
    done = helm("template", "lake", "--namespace", "lake", values=values, directory=directory)
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]


@pytest.mark.parametrize("values", ["", EVERYTHING, MINIMAL, OTHER_REDIS], ids=["default", "all", "small", "redis"])
def test_what_the_chart_renders_is_valid_and_hardened(values: str, tmp_path: Path) -> None:
    linted = helm("lint", "--strict", values=values, directory=tmp_path)
    assert linted.returncode == 0, linted.stdout
    documents = rendered(values, tmp_path)
    for document in documents:
        if document["kind"] not in FOREIGN:
            kubernetes_validate.validate(document, KUBERNETES, strict=True)
        if document["kind"] in ("Deployment", "StatefulSet") and "redis" not in document["metadata"]["name"]:
            check_hardened(document["spec"]["template"]["spec"])
    names = [(document["kind"], document["metadata"]["name"]) for document in documents]
    assert len(set(names)) == len(names)


def test_every_template_is_used_by_the_values_for_everything(tmp_path: Path) -> None:
    kinds = {document["kind"] for document in rendered(EVERYTHING, tmp_path)}
    assert kinds >= {
        "ConfigMap",
        "ClusterRole",
        "Deployment",
        "ExternalSecret",
        "HorizontalPodAutoscaler",
        "NetworkPolicy",
        "PodDisruptionBudget",
        "Service",
        "ServiceAccount",
        "ServiceMonitor",
        "StatefulSet",
    }


def test_the_rendered_settings_are_settings_of_tidyberg(tmp_path: Path) -> None:
    (config,) = [one for one in rendered("", tmp_path) if one["kind"] == "ConfigMap"]
    path = tmp_path / "tidyberg.yaml"
    path.write_text(config["data"]["tidyberg.yaml"])
    environ = {"CATALOG_URI": "http://catalog:8181", "TIDYBERG_HOME": str(tmp_path)}
    assert load_settings(path, environ=environ).known_catalogs["default"].reveal()["uri"] == "http://catalog:8181"


def test_selectors_of_services_policies_and_budgets_match_pods(tmp_path: Path) -> None:
    documents = rendered(EVERYTHING, tmp_path)
    pods = [
        document["spec"]["template"]["metadata"]["labels"]
        for document in documents
        if document["kind"] in ("Deployment", "StatefulSet")
    ]
    for document in documents:
        spec = document.get("spec", {})
        selector = spec.get("podSelector") or spec.get("selector")
        if selector and document["kind"] != "ServiceMonitor":
            labels = selector.get("matchLabels", selector)
            assert sum(labels.items() <= pod.items() for pod in pods) == 1, document["metadata"]["name"]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ("{replicas: 3, redis: {enabled: false}}", "Several replicas share their jobs in Redis"),
        ("redis: {enabled: true, urlSecret: x}", "exclude each other"),
        ("replicas: three", "replicas"),
        ("operator: {cluster: a_b}", "cluster"),
        ("replica: 3", "replica"),
    ],
)
def test_wrong_values_are_refused_with_the_reason(values: str, words: str, tmp_path: Path) -> None:
    refused = helm("template", "lake", values=values, directory=tmp_path)
    assert refused.returncode != 0
    assert words in refused.stderr
