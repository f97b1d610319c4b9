"""Rules for groups that are sorted by a shuffle."""

from tests.mutants.mutant import Mutant

SORTED = ("tests/control/test_sorted_groups.py",)
SCRATCH = ("tests/execute/test_shuffle.py",)

SHUFFLES = (
    Mutant(
        "every row that map tasks send is written [I1]",
        "verify/parts.py",
        "if part.rows_written != sent:",
        "if False:",
        (f"{SORTED[0]}::test_a_chunk_of_rows_that_does_not_arrive_is_found_without_reading_outputs_back",),
    ),
    Mutant(
        "map tasks take every row of a shared file once [I1]",
        "verify/parts.py",
        "    _check_cuts(task, reports)\n",
        "",
        (f"{SORTED[0]}::test_rows_that_no_map_task_takes_are_found",),
    ),
    Mutant(
        "the rows of outputs are those that were read, not those that arrived [I1]",
        "execute/kernel/range_sort/cut.py",
        "                    checksum.update(rows)\n",
        "                    checksum.rows += rows.num_rows\n",
        (f"{SORTED[0]}::test_deletes_are_applied_on_the_way",),
    ),
    Mutant(
        "consecutive ranges belong to one output, so that outputs do not overlap",
        "execute/kernel/range_sort/cut.py",
        "partition = number // self.each",
        "partition = number % self.partitions",
        (f"{SORTED[0]}::test_rows_are_sorted_in_and_among_the_outputs",),
    ),
    Mutant(
        "ranges are written in the order of the key",
        "execute/kernel/shuffle/chunk_files.py",
        "return dict(sorted(sizes.items(), key=itemgetter(0)))",
        "return dict(sorted(sizes.items(), key=itemgetter(0), reverse=True))",
        (f"{SORTED[0]}::test_rows_are_sorted_in_and_among_the_outputs",),
    ),
    Mutant(
        "an output that is not in order is refused [I9]",
        "execute/kernel/range_sort/merge.py",
        "if check is not None and check.first_wrong is not None:",
        "if False:",
        (f"{SORTED[0]}::test_rows_that_are_not_in_order_are_refused",),
    ),
    Mutant(
        "outputs along a curve claim no sort order [I9]",
        "execute/kernel/range_sort/merge.py",
        "order_id = self.bounds.key.order_id if check is not None else None",
        "order_id = self.bounds.key.order_id",
        (f"{SORTED[0]}::test_outputs_claim_an_order_of_the_table_but_never_a_curve",),
    ),
    Mutant(
        "a sorted group is not divided by its inputs, so that outputs do not overlap",
        "execute/tasks/build.py",
        "parts=1 if group.sort_key is not None else group.tasks,",
        "parts=group.tasks,",
        (f"{SORTED[0]}::test_a_group_that_fits_into_memory_is_sorted_by_one_task",),
    ),
    Mutant(
        "rows of a heavy key are divided among outputs",
        "execute/kernel/order/ranges.py",
        "part = (equal + row_numbers_start) * _GOLDEN % 1",
        "part = (equal + row_numbers_start) * 0.0",
        (f"{SORTED[0]}::test_a_heavy_key_is_divided_among_outputs_that_touch_but_do_not_overlap",),
    ),
    Mutant(
        "every map task keeps its chunks in a file of its own",
        "execute/kernel/shuffle/scratch.py",
        'f"map-{task.number:06d}-a{number:02d}"',
        'f"map-{number:06d}"',
        SCRATCH,
    ),
    Mutant(
        "the directory of a process that lives is not removed",
        "execute/scratch_directories.py",
        "    except BlockingIOError:\n        return False\n",
        "    except BlockingIOError:\n        return True\n",
        SCRATCH,
    ),
)
