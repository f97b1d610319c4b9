"""The manifests, the compose file and the Dockerfile: valid, hardened, and as the contract has them."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from tests.builders.settings_examples import SERVICE_EXAMPLE
from tests.deploy.manifests import KUBERNETES, check_hardened, compose_environment
from tidyberg import __version__
from tidyberg.operator.definitions import definitions
from tidyberg.operator.policies import POLICY_KINDS, PolicyName, wanted_schedule
from tidyberg.settings.access import hash_key, why_not_open
from tidyberg.settings.load import load_settings

ROOT = Path(__file__).parents[2]
MANIFESTS = ROOT / "deploy" / "kubernetes"
CHART = ROOT / "deploy" / "helm" / "tidyberg"
COMPOSE = ROOT / "docker" / "docker-compose.yml"

# The CronJob and the Deployment of the contract, as they are printed there.
CRON_JOB_ARGS = ["--catalog-uri=$(CATALOG_URI)", "--table=events", "--strategy=small-files"]
CATALOG_URI = {"name": "CATALOG_URI", "valueFrom": {"secretKeyRef": {"name": "catalog-secret", "key": "uri"}}}


def documents(path: Path) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


def one(path: str, kind: str) -> dict[str, Any]:
    (found,) = [document for document in documents(MANIFESTS / path) if document["kind"] == kind]
    return found


@pytest.mark.parametrize("name", ["service.yaml", "cronjob.yaml"])
def test_manifests_are_valid(name: str) -> None:
    for document in documents(MANIFESTS / name):
        kubernetes_validate.validate(document, KUBERNETES, strict=True)


def test_the_cronjob_is_that_of_the_contract() -> None:
    job = one("cronjob.yaml", "CronJob")
    pod = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert (job["metadata"]["name"], job["spec"]["schedule"]) == ("hourly-compaction", "0 * * * *")
    assert (container["name"], container["image"]) == ("compactor", "iceberg-compaction:latest")
    assert (container["command"], container["args"]) == (["iceberg-compact"], CRON_JOB_ARGS)
    assert container["env"] == [CATALOG_URI]
    assert container["resources"] == {
        "limits": {"memory": "4Gi", "cpu": "2"},
        "requests": {"memory": "2Gi", "cpu": "1"},
    }
    assert pod["restartPolicy"] == "OnFailure"


def test_the_deployment_is_that_of_the_contract() -> None:
    deployment = one("service.yaml", "Deployment")
    assert deployment["metadata"]["name"] == "iceberg-compaction"
    assert deployment["spec"]["replicas"] == 3
    assert deployment["spec"]["selector"] == {"matchLabels": {"app": "iceberg-compaction"}}
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert (container["name"], container["image"]) == ("compaction", "iceberg-compaction:latest")
    assert container["ports"] == [{"containerPort": 8080}]
    assert CATALOG_URI in container["env"]


@pytest.mark.parametrize("name", ["service.yaml", "cronjob.yaml"])
def test_pods_run_without_privileges_on_a_read_only_root(name: str) -> None:
    for document in documents(MANIFESTS / name):
        spec = document.get("spec", {})
        spec = spec.get("jobTemplate", document).get("spec", {}) if "jobTemplate" in spec else spec
        if "template" in spec:
            check_hardened(spec["template"]["spec"])


def test_the_service_of_the_manifest_accepts_its_settings_only_with_keys(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(one("service.yaml", "ConfigMap")["data"]["config.yaml"])
    environ = {"CATALOG_URI": "http://catalog:8181", "TIDYBERG_HOME": str(tmp_path)}
    plain = load_settings(config, environ=environ)
    assert why_not_open(plain.access, plain.server.host, insecure=False) is not None
    keys = json.dumps([{"name": "airflow", "role": "operator", "hash": hash_key("tdb_x")}])
    with_keys = load_settings(config, environ={**environ, "TIDYBERG_ACCESS__API_KEYS": keys})
    assert why_not_open(with_keys.access, with_keys.server.host, insecure=False) is None
    contract = yaml.safe_load(SERVICE_EXAMPLE)
    given = yaml.safe_load(config.read_text())
    assert {**given, "catalog": contract["catalog"]} == contract


def test_the_example_policies_are_valid_and_become_schedules() -> None:
    schemas = {one["spec"]["names"]["kind"]: schema_of(one) for one in definitions()}
    kinds = {kind.name: kind for kind in POLICY_KINDS}
    found = documents(MANIFESTS / "policies.yaml")
    assert {policy["kind"] for policy in found} == set(kinds)
    for policy in found:
        jsonschema.validate(policy, schemas[policy["kind"]])
        name = PolicyName("kubernetes", kinds[policy["kind"]], "lake", policy["metadata"]["name"])
        assert wanted_schedule(name, policy["spec"]).table == policy["spec"]["table"]


def schema_of(definition: dict[str, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def test_the_definitions_in_the_chart_are_those_of_the_operator() -> None:
    """`tidyberg-operator crds > deploy/helm/tidyberg/crds/policies.yaml` renews them."""
    assert documents(CHART / "crds" / "policies.yaml") == definitions()


def test_the_default_values_of_the_chart_follow_their_schema_and_a_wrong_one_does_not() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    jsonschema.validate(values, schema)
    assert set(schema["properties"]) - {"global"} == set(values)
    for wrong in ({"replicas": "three"}, {"replica": 3}, {"operator": {"cluster": "a_b"}}, {"image": {"tag": 1}}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**values, **wrong}, schema)


def test_the_version_of_the_chart_is_that_of_tidyberg() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)


def test_the_compose_file_has_the_services_and_variables_of_the_contract() -> None:
    services = yaml.safe_load(COMPOSE.read_text())["services"]
    assert {"compaction", "redis", "rest-catalog", "s3"} <= set(services)
    compaction = services["compaction"]
    assert (compaction["image"], services["redis"]["image"]) == ("iceberg-compaction:latest", "redis:7-alpine")
    assert {"CATALOG_URI=http://rest-catalog:8181", "REDIS_URL=redis://redis:6379", "AWS_REGION=us-east-1"} <= set(
        compaction["environment"]
    )
    assert {"redis", "rest-catalog"} <= set(compaction["depends_on"])
    assert compaction["read_only"] is True


def test_the_key_of_the_compose_file_opens_the_service_of_its_config(tmp_path: Path) -> None:
    services = yaml.safe_load(COMPOSE.read_text())["services"]
    environ = compose_environment(services["compaction"])
    key = compose_environment(services["first-compaction"])["TIDYBERG_TOKEN"]
    settings = load_settings(ROOT / "docker" / "config.yaml", environ={**environ, "TIDYBERG_HOME": str(tmp_path)})
    assert [one.hash for one in settings.access.api_keys] == [hash_key(key)]
    assert why_not_open(settings.access, settings.server.host, insecure=False) is None
    assert settings.store.url is not None


def test_the_dockerfile_has_no_finding_of_hadolint() -> None:
    program = Path(sys.executable).parent / "hadolint"
    done = subprocess.run([program, ROOT / "docker" / "Dockerfile"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_dockerfile_copies_only_what_dockerignore_lets_in() -> None:
    let_in = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copies = re.findall(r"^COPY (?!--from)(.+) \S+$", (ROOT / "docker" / "Dockerfile").read_text(), re.MULTILINE)
    copied = {name for line in copies for name in line.split()}
    assert copied == let_in
    assert all((ROOT / name).exists() for name in copied)
