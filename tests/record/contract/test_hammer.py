"""Threads and processes share one store: no job is claimed twice or lost, and a table has one running job."""

import multiprocessing
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from itertools import pairwise

from tests.builders.job_stores import Open, Place
from tests.builders.submissions import submission
from tests.record.contract.hammer import work
from tidyberg.model.job import JobStatus
from tidyberg.model.submission import Query
from tidyberg.record.queue import JobQueue

JOBS, TABLES, TENANTS = 160, 23, 3


def submit_some(queue: JobQueue, first: int, step: int) -> None:
    for number in range(first, JOBS, step):
        made = submission(str(number), f"db.t{number % TABLES}", f"tenant-{number % TENANTS}", priority=number % 5)
        queue.submit(made, key=f"key-{number}")


def test_nothing_is_lost_or_done_twice_by_threads_and_processes(place: Place, open_records: Open) -> None:
    queues = [open_records().queue for _ in range(2)]
    submitters = [threading.Thread(target=submit_some, args=(queue, n, 2)) for n, queue in enumerate(queues)]
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as processes, ThreadPoolExecutor(1) as threads:
        workers = [processes.submit(work, place, seed, JOBS) for seed in range(2)]
        workers.append(threads.submit(work, place, 2, JOBS))
        for submitter in submitters:
            submitter.start()
        for submitter in submitters:
            submitter.join()
        turns = [turn for worker in workers for turn in worker.result(timeout=120)]
    ended = [turn.job_id for turn in turns if turn.ended_it]
    assert sorted(ended, key=int) == [str(number) for number in range(JOBS)]
    assert len({turn.token for turn in turns}) == len(turns)
    kept = queues[0].submissions(Query(limit=10 * JOBS)).submissions
    assert len(kept) == JOBS
    assert {job.status for job in kept} == {JobStatus.SUCCEEDED}
    assert JOBS <= sum(job.attempts for job in kept) <= len(turns), "a turn that was taken over costs no attempt"
    by_table = sorted((turn.table, turn.since, turn.until) for turn in turns if turn.ended_it)
    for (table, _, until), (following, since, _) in pairwise(by_table):
        assert table != following or until < since


def test_a_key_that_many_send_at_the_same_time_makes_one_job(open_records: Open) -> None:
    queues = [open_records().queue for _ in range(4)]
    made: list[str] = []

    def send(number: int) -> None:
        made.append(queues[number % 4].submit(submission(str(number)), key="once").job_id)

    senders = [threading.Thread(target=send, args=(number,)) for number in range(16)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    assert len(made) == 16
    assert len(set(made)) == 1
    assert len(queues[0].submissions(Query()).submissions) == 1
