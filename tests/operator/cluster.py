"""A Kubernetes API on a real port, from kmock, with the definitions of the policies. It keeps objects in memory."""

import asyncio
import itertools
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import jsonpatch
import kmock
import yaml

from tidyberg.operator.definitions import definitions
from tidyberg.operator.handlers import FINALIZER

PATIENCE_SECONDS = 90.0
NAMESPACE = "lake"


class Api(kmock.KubernetesEmulator):
    """Counts the versions of objects, and refuses a patch for another version with the status of the real API."""

    async def _handle(self, request: kmock.Request) -> Any:
        if request.action not in (kmock.action.CREATE, kmock.action.UPDATE, kmock.action.DELETE):
            return await super()._handle(request)
        async with _one_change_at_a_time:
            self._count(request)
            try:
                return await super()._handle(request)
            except jsonpatch.JsonPatchTestFailed as error:
                raise kmock.KubernetesError(status=422, reason="Invalid", message=str(error)) from error

    def _count(self, request: kmock.Request) -> None:
        version = str(next(_versions))
        if request.action is kmock.action.DELETE and request.resource is not None and request.name is not None:
            key = (request.resource, request.namespace, request.name)
            if key in self.objects and not self.objects[key].deleted:
                self.objects[key].patch({"metadata": {"resourceVersion": version}})
        elif isinstance(request.data, list):
            request.data.append({"op": "add", "path": "/metadata/resourceVersion", "value": version})
        elif isinstance(request.data, dict):
            request.data.setdefault("metadata", {})["resourceVersion"] = version


_one_change_at_a_time = asyncio.Lock()
_versions = itertools.count(1)


def resource(
    kind: str, singular: str | None = None, subresources: set[str] | None = None, *, namespaced: bool = True
) -> kmock.ResourceInfo:
    return kmock.ResourceInfo(
        namespaced=namespaced,
        kind=kind,
        singular=singular or kind.lower(),
        verbs={"get", "list", "watch", "create", "patch", "delete"},
        subresources=subresources or set(),
    )


class Cluster:
    """Runs in a thread of its own until closed."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._stop: asyncio.Event | None = None
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),))
        self._thread.start()
        assert self._started.wait(PATIENCE_SECONDS)
        self._http = httpx.Client(base_url=self.url, headers={"Content-Type": "application/merge-patch+json"})
        for definition in definitions():
            self._http.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", json=definition)

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        async with Api() as api, kmock.Server(api) as server:
            for definition in definitions():
                spec = definition["spec"]
                names = spec["names"]
                name = f"{spec['group']}/{spec['versions'][0]['name']}/{names['plural']}"
                api.resources[name] = resource(names["kind"], names["singular"], {"status"})
            api.resources["v1/namespaces"] = resource("Namespace", namespaced=False)
            api.resources["v1/events"] = resource("Event")
            api.resources["apiextensions.k8s.io/v1/customresourcedefinitions"] = resource(
                "CustomResourceDefinition", namespaced=False
            )
            self.url = str(server.url).rstrip("/")
            self._started.set()
            await self._stop.wait()

    def close(self) -> None:
        assert self._stop is not None
        self._http.close()
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive()
        self._loop.close()

    def kubeconfig(self, directory: Path) -> Path:
        path = directory / "kubeconfig"
        config = {
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": self.url}}],
            "users": [{"name": "test", "user": {"token": "any"}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        }
        path.write_text(yaml.safe_dump(config))
        return path

    def create(self, plural: str, name: str, spec: dict[str, Any]) -> None:
        kind = next(one["spec"]["names"]["kind"] for one in definitions() if one["spec"]["names"]["plural"] == plural)
        metadata = {"name": name, "namespace": NAMESPACE, "uid": str(uuid.uuid4()), "generation": 1}
        body = {"apiVersion": "tidyberg.io/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}
        self._http.post(_path(plural), json=body).raise_for_status()

    def change(self, plural: str, name: str, spec: dict[str, Any]) -> None:
        """Changes fields of the spec. The real API counts generations by itself."""
        before = self.get(plural, name)
        assert before is not None
        body = {"spec": spec, "metadata": {"generation": before["metadata"]["generation"] + 1}}
        self._http.patch(_path(plural, name), json=body).raise_for_status()

    def delete(self, plural: str, name: str) -> None:
        self._http.delete(_path(plural, name)).raise_for_status()

    def get(self, plural: str, name: str) -> dict[str, Any] | None:
        found = self._http.get(_path(plural, name))
        return None if found.status_code == 404 else dict(found.raise_for_status().json())

    def status(self, plural: str, name: str) -> dict[str, Any]:
        return dict((self.get(plural, name) or {}).get("status") or {})

    def until(
        self, plural: str, name: str, holds: Callable[[dict[str, Any]], bool], seconds: float = PATIENCE_SECONDS
    ) -> dict[str, Any]:
        """Waits until the status of the policy is as asked, and returns it."""
        give_up = time.monotonic() + seconds
        while not holds(found := self.status(plural, name)):
            assert time.monotonic() < give_up, found
            time.sleep(0.05)
        return found

    def check_marked(self, plural: str, name: str) -> None:
        """Checks that the policy is being deleted, and is held by its finalizer."""
        found = self.get(plural, name)
        assert found is not None
        assert found["metadata"]["deletionTimestamp"]
        assert found["metadata"]["finalizers"] == [FINALIZER]

    def until_gone(self, plural: str, name: str) -> None:
        give_up = time.monotonic() + PATIENCE_SECONDS
        while (found := self.get(plural, name)) is not None:
            assert time.monotonic() < give_up, found
            time.sleep(0.05)


def _path(plural: str, name: str | None = None) -> str:
    path = f"/apis/tidyberg.io/v1alpha1/namespaces/{NAMESPACE}/{plural}"
    return path if name is None else f"{path}/{name}"


def is_ready(status: dict[str, Any]) -> bool:
    return any(one["status"] == "True" for one in status.get("conditions", ()))


def is_refused(status: dict[str, Any]) -> bool:
    return any((one["status"], one["reason"]) == ("False", "Refused") for one in status.get("conditions", ()))
