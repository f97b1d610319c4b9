"""Live entries of many manifests, some of which are damaged."""

from pathlib import Path

import pytest

from tidyberg.errors import DamagedFile
from tidyberg.observe import reachable
from tidyberg.observe.manifest_list import read_manifest_list
from tidyberg.observe.reachable import entries_by_manifest
from tidyberg.testing import SAMPLE_SCHEMA, ForgedEntry, ForgedManifest, forge_static_table, local_path


@pytest.mark.parametrize("bundle", [1, 4, 100])
def test_every_damaged_manifest_is_named_once_and_all_others_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bundle: int
) -> None:
    monkeypatch.setattr(reachable, "_BUNDLE", bundle)
    manifests = [
        ForgedManifest([ForgedEntry(f"file:///{number}-{status}", status=status, size=number) for status in (0, 1, 2)])
        for number in range(9)
    ]
    table = forge_static_table(tmp_path, manifests, schema=SAMPLE_SCHEMA)
    infos = read_manifest_list(table.io, table.metadata.snapshots[0].manifest_list)
    Path(local_path(infos[2].path)).write_bytes(b"no Avro")
    Path(local_path(infos[7].path)).unlink()
    said: list[str] = []
    found = dict(entries_by_manifest(table.io, infos, skip=lambda error: said.append(error.message)))
    assert [infos[number].path in text for number, text in zip((2, 7), said, strict=True)] == [True, True]
    assert sorted(found) == sorted(info.path for number, info in enumerate(infos) if number not in (2, 7))
    assert found[infos[3].path].to_pylist() == [
        {"path": f"file:///3-{status}", "kind": 0, "size": 3} for status in (0, 1)
    ]
    with pytest.raises(DamagedFile):
        list(entries_by_manifest(table.io, infos))
