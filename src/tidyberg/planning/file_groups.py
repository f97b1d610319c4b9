"""Turns drafts into the numbered file groups of a plan, with the delete files and manifests that belong to them."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidyberg.model.inventory import Inventory
from tidyberg.model.plan import DeleteFile, FileGroup, InputFile
from tidyberg.planning.candidates import Candidates
from tidyberg.planning.drafts import GroupDraft, deletes_of
from tidyberg.planning.price import Pricing


def numbered_groups(
    drafts: Sequence[GroupDraft],
    inventory: Inventory,
    files: pa.Table,
    used: npt.NDArray[np.int64],
    pricing: Pricing,
    first_group: int,
) -> list[FileGroup]:
    """Turns drafts into groups. `files` are sorted by sequence number and path, and so are the files of each group.

    `used` has the positions of the delete files that the plan lists. A group refers to them by their place in it.
    """
    if not drafts:
        return []
    rows = files.take(pa.array(np.concatenate([draft.members for draft in drafts])))
    manifests = [manifest.path for manifest in inventory.manifests]
    inputs = [
        InputFile(path, size, records, sequence_number, manifests[manifest], first_row_id)
        for path, size, records, sequence_number, manifest, first_row_id in zip(
            *(
                rows.column(name).to_pylist()
                for name in ("path", "size", "records", "sequence_number", "manifest", "first_row_id")
            ),
            strict=True,
        )
    ]
    groups: list[FileGroup] = []
    start = 0
    for draft in drafts:
        end = start + len(draft.members)
        partition = inventory.partitions[draft.partition]
        groups.append(
            FileGroup(
                group_id=first_group + len(groups),
                spec_id=partition.spec_id,
                partition_path=partition.path,
                files=tuple(inputs[start:end]),
                outputs=draft.outputs,
                mode=draft.mode.mode,
                score=draft.score,
                estimate=pricing.price_group(draft.work),
                output_spec_id=inventory.pinned.default_spec_id if draft.moves else None,
                deletes=tuple(np.searchsorted(used, draft.deletes).tolist()),
                mode_reason=draft.mode.reason,
                tasks=draft.work.tasks,
                sort_key=draft.sort_key,
                boundaries=draft.boundaries,
            )
        )
        start = end
    return groups


def plan_deletes(rows: pa.Table, inventory: Inventory) -> tuple[DeleteFile, ...]:
    return tuple(
        DeleteFile(
            path=row["path"],
            kind=row["kind"],
            size=row["size"],
            records=row["records"],
            sequence_number=row["sequence_number"],
            manifest=inventory.manifests[row["manifest"]].path,
            referenced_data_file=row["referenced_data_file"],
            equality_ids=tuple(row["equality_ids"] or ()),
            content_offset=row["content_offset"],
            content_size=row["content_size"],
        )
        for row in rows.to_pylist()
    )


def touched_manifests(drafts: Sequence[GroupDraft], candidates: Candidates, *, with_data: bool = False) -> set[int]:
    """Returns the manifests that list files or deletes of the drafts. The commit may have to rewrite them.

    Where only deletes are merged, data files stay in their manifests. `with_data` includes these manifests too.
    """
    if not drafts:
        return set()
    rewritten = [draft.members for draft in drafts if with_data or not draft.keeps_data]
    members = np.concatenate([np.array([], dtype=np.int64), *rewritten])
    data = candidates.files.column("manifest").to_numpy()[members]
    deletes = candidates.deletes.rows.column("manifest").to_numpy()[deletes_of(drafts)]
    return set(np.unique(data).tolist()) | set(np.unique(deletes).tolist())
