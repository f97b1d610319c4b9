"""The images, built and run with buildah: `make test-image`. The build takes minutes, so a normal run leaves it out.

The other services of the compose file run on this machine as processes, with the variables of the file. The service
itself runs in its container.
"""

import json
import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import httpx
import pytest
import yaml
from packaging.requirements import Requirement
from pyiceberg.catalog import Catalog, load_catalog

from tests.containers.container import OPERATOR, ROOT, SERVICE, Container, size_of
from tests.containers.rest_on_s3 import RestServerOnS3
from tests.deploy.manifests import compose_environment
from tests.servers.redis import RedisServer
from tests.servers.s3 import S3Server
from tests.servers.server import free_port

pytestmark = pytest.mark.skipif("TEST_IMAGE" not in os.environ, reason="make test-image runs it")

START_SECONDS = 120.0
MB = 1_000_000
SERVICES = yaml.safe_load((ROOT / "docker" / "docker-compose.yml").read_text())["services"]


@pytest.fixture(scope="module", autouse=True)
def images() -> None:
    for target, image in (("service", SERVICE), ("operator", OPERATOR)):
        subprocess.run(["sh", "scripts/image.sh", target, image], cwd=ROOT, check=True, timeout=3000)


@pytest.fixture
def container(images: None) -> Iterator[Container]:
    opened = Container(SERVICE)
    yield opened
    opened.close()


@dataclass(frozen=True)
class Lakehouse:
    """The other services of the compose file, and the addresses that they have here."""

    s3: S3Server
    rest: RestServerOnS3
    redis: RedisServer
    catalog: Catalog

    def environment(self, service: str, **more: str) -> dict[str, str]:
        return {**here(SERVICES[service], self.s3, self.rest.uri, self.redis.url), **more}

    def files(self) -> int:
        return len(list(self.catalog.load_table("public.events").scan().plan_files()))


def here(service: dict[str, object], s3: S3Server, rest_uri: str = "", redis_url: str = "") -> dict[str, str]:
    """Returns the variables of a service of the compose file, with the addresses and keys of this machine."""
    environ = compose_environment(service)
    places = {"http://s3:7070": s3.endpoint, "http://rest-catalog:8181": rest_uri, "redis://redis:6379": redis_url}
    found = {name: places.get(value, value) for name, value in environ.items()}
    return {**found, "AWS_ACCESS_KEY_ID": s3.access_key, "AWS_SECRET_ACCESS_KEY": s3.secret_key}


@pytest.fixture(scope="module")
def lakehouse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lakehouse]:
    with ExitStack() as servers:
        s3 = servers.enter_context(S3Server(tmp_path_factory.mktemp("s3")))
        redis = servers.enter_context(RedisServer(tmp_path_factory.mktemp("redis")))
        environ = here(SERVICES["rest-catalog"], s3)
        rest = servers.enter_context(RestServerOnS3(tmp_path_factory.mktemp("rest"), environ))
        yield Lakehouse(s3, rest, redis, load_catalog("default", type="rest", uri=rest.uri, **s3.properties))


@dataclass(frozen=True)
class ServedContainer:
    container: Container
    url: str
    seconds: float  # from the start of the container until it was ready


@pytest.fixture(scope="module")
def service(images: None, lakehouse: Lakehouse, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedContainer]:
    directory = tmp_path_factory.mktemp("service")
    port = free_port()
    container = Container(SERVICE)
    environ = lakehouse.environment("compaction", TIDYBERG_SERVER__PORT=str(port))
    mounts = {ROOT / "docker" / "config.yaml": "/etc/tidyberg/config.yaml:ro"}
    began = time.monotonic()
    process = container.start(*container.config["Cmd"], log=directory / "log", environ=environ, mounts=mounts)
    url = f"http://127.0.0.1:{port}"
    try:
        while not is_ready(url):
            assert process.poll() is None, (directory / "log").read_text()
            assert time.monotonic() - began < START_SECONDS, (directory / "log").read_text()
            time.sleep(0.1)
        yield ServedContainer(container, url, time.monotonic() - began)
    finally:
        process.terminate()
        process.wait(60)
        container.close()


def is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health/ready", timeout=5).status_code == 200
    except httpx.TransportError:
        return False


def test_a_table_on_s3_is_compacted_through_the_rest_catalog(service: ServedContainer, lakehouse: Lakehouse) -> None:
    """The one command of the compose file: the service, then the script that writes a table and submits it."""
    print(f"\nthe service was ready after {service.seconds:.1f} s")  # noqa: T201
    script = ROOT / "docker" / "first_compaction.py"
    environ = lakehouse.environment("first-compaction", TIDYBERG_SERVER=service.url)
    container = Container(SERVICE)
    try:
        ran = container.run("python", "/tmp/first.py", environ=environ, mounts={script: "/tmp/first.py:ro"})
    finally:
        container.close()
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert re.search(r"public.events has 30 files and 30,000 rows", ran.stdout)
    assert re.search(r"succeeded: public.events has 1 file and 30,000 rows", ran.stdout)
    assert lakehouse.files() == 1
    assert lakehouse.catalog.load_table("public.events").location().startswith("s3://lake/")


def test_the_health_check_of_the_image_follows_the_service(service: ServedContainer) -> None:
    port = service.url.rpartition(":")[2]
    check = ["python", "/usr/local/lib/tidyberg/health.py"]
    alive = service.container.run(*check, environ={"TIDYBERG_SERVER__PORT": port})
    dead = service.container.run(*check, environ={"TIDYBERG_SERVER__PORT": str(free_port())})
    assert (alive.returncode, dead.returncode) == (0, 1)


def test_a_call_without_a_key_is_refused(service: ServedContainer) -> None:
    assert httpx.get(f"{service.url}/api/v1/tables").status_code == 401


def test_the_cronjob_of_the_contract_runs_in_the_image(service: ServedContainer, lakehouse: Lakehouse) -> None:
    """It runs after the first compaction, and finds files that were written since."""
    job = yaml.safe_load((ROOT / "deploy" / "kubernetes" / "cronjob.yaml").read_text())
    (spec,) = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    table = lakehouse.catalog.load_table("public.events")
    rows = table.scan(limit=10).to_arrow()
    for _ in range(12):
        table.append(rows)
    before = lakehouse.files()
    # Kubernetes replaces $(NAME) in arguments.
    arguments = [text.replace("$(CATALOG_URI)", lakehouse.rest.uri) for text in spec["args"]]
    storage = {f"TIDYBERG_STORAGE__{name}": value for name, value in (("ENDPOINT", lakehouse.s3.endpoint),)}
    container = Container(SERVICE)
    try:
        began = time.monotonic()
        ran = container.run(*spec["command"], *arguments, environ={**lakehouse.environment("compaction"), **storage})
        print(f"\niceberg-compact took {time.monotonic() - began:.1f} s")  # noqa: T201
    finally:
        container.close()
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert lakehouse.files() < before, ran.stdout


def test_commands_run_as_another_user_than_root_who_cannot_write_to_the_root_file_system(container: Container) -> None:
    shown = container.run(
        "sh", "-c", "id -u; touch /x /opt/x /etc/tidyberg/x /usr/x; touch /tmp/x /var/lib/tidyberg/x && echo ok"
    )
    assert shown.stdout.split() == ["10001", "ok"]
    assert len(re.findall("Permission denied|Read-only", shown.stderr)) == 4
    assert container.config["User"] == "10001:10001"


@pytest.mark.parametrize("command", ["tidyberg", "iceberg-compact", "iceberg-compaction-server"])
def test_the_commands_of_the_contract_are_in_the_image(command: str, container: Container) -> None:
    assert container.run(command, "--help").returncode == 0


def test_the_service_refuses_to_start_without_access_rules(container: Container) -> None:
    """The compose file of the contract has no keys, and a container listens on every address."""
    ran = container.run("iceberg-compaction-server", environ={"CATALOG_URI": "http://rest-catalog:8181"})
    assert ran.returncode == 2
    assert "nobody would have to say who they are" in " ".join(ran.stderr.split())


def test_the_bill_of_materials_lists_the_lock_file(container: Container) -> None:
    listed = json.loads(container.run("cat", "/opt/tidyberg/sbom.cdx.json").stdout)
    assert (listed["bomFormat"], listed["specVersion"]) == ("CycloneDX", "1.6")
    purls = {one["purl"] for one in listed["components"] if "purl" in one}
    lock = (ROOT / "requirements-runtime.lock").read_text().splitlines()
    locked = [Requirement(line) for line in lock if line[:1].isalpha()]
    here = {"python_version": "3.11", "python_full_version": "3.11.2"}
    needed = [one for one in locked if one.marker is None or one.marker.evaluate(here)]
    assert len(needed) > 50
    assert {f"pkg:pypi/{one.name}@{str(one.specifier).removeprefix('==')}" for one in needed} <= purls
    assert any(one["name"].startswith("spark-core") for one in listed["components"])


def test_the_operator_runs_from_its_image_without_spark() -> None:
    container = Container(OPERATOR)
    try:
        printed = container.run("tidyberg-operator", "crds")
        assert printed.returncode == 0, printed.stderr
        assert len(list(yaml.safe_load_all(printed.stdout))) == 2
        assert container.run("python", "-c", "import pyspark").returncode != 0
        assert container.config["User"] == "10001:10001"
    finally:
        container.close()


def test_the_images_are_small() -> None:
    sizes = {image: size_of(image) // MB for image in (SERVICE, OPERATOR)}
    print(f"\nsizes in MB: {sizes}")  # noqa: T201
    assert sizes[SERVICE] < 1400
    assert sizes[OPERATOR] < 300
