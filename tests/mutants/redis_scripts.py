"""Rules of the queue and of leases in Redis: who may run, who may write, and what is done once [I7]."""

from tests.mutants.mutant import Mutant

HOLDING = "tests/record/contract/test_holding.py"
TURNS = "tests/record/contract/test_turns.py"
RUNS = "tests/record/contract/test_runs.py"
SUBMITTING = "tests/record/contract/test_submitting.py"
REDIS = "tests/record/test_redis.py"

REDIS_SCRIPTS = (
    Mutant(
        "redis: who has an older token changes nothing",
        "record/lua/queue.lua",
        "job.status == 'running' and job.token == token",
        "job.status == 'running'",
        (f"{HOLDING}::test_a_worker_that_lost_its_claim_changes_nothing[redis]",),
    ),
    Mutant(
        "redis: what ended is nobody's any more",
        "record/lua/queue.lua",
        "job.status == 'running' and job.token == token",
        "job.token == token",
        (f"{HOLDING}::test_a_submission_ends_once[redis]",),
    ),
    Mutant(
        "redis: a table has one running",
        "record/lua/claim.lua",
        "redis.call('HSET', P .. 'busy', job.table_id, job.id)\n",
        "",
        (f"{TURNS}::test_a_table_has_at_most_one_running_job[redis]",),
    ),
    Mutant(
        "redis: a table is free for all who wait when its job has ended",
        "record/lua/queue.lua",
        "  refresh_table(job.table_id)\n  rank_tenant(job.tenant)\n",
        "  rank_tenant(job.tenant)\n",
        (f"{TURNS}::test_the_highest_priority_of_a_busy_table_goes_first_when_it_is_free[redis]",),
    ),
    Mutant(
        "redis: the next of a table becomes ready when its first is cancelled",
        "record/lua/cancel.lua",
        "  stop_waiting(job)\n",
        "",
        (f"{HOLDING}::test_a_waiting_submission_ends_at_once_when_cancelled[redis]",),
    ),
    Mutant(
        "redis: the tenant with the fewest running goes first",
        "record/lua/queue.lua",
        "running * SHIFT + served",
        "0 * running + served",
        (f"{TURNS}::test_fewer_running_jobs_count_more_than_a_longer_wait[redis]",),
    ),
    Mutant(
        "redis: the tenant served longest ago goes first",
        "record/lua/queue.lua",
        "running * SHIFT + served",
        "running * SHIFT + 0 * served",
        (f"{TURNS}::test_with_equally_many_running_jobs_the_tenant_served_longest_ago_goes_first[redis]",),
    ),
    Mutant(
        "redis: what is put off becomes ready when its time has come",
        "record/lua/claim.lua",
        "  start_waiting(find(id))\n",
        "",
        (f"{TURNS}::test_a_postponed_submission_waits_for_its_time_and_delays_no_other[redis]",),
    ),
    Mutant(
        "redis: a claim whose answer was lost is not made twice",
        "record/lua/claim.lua",
        "local earlier = answered()",
        "local earlier = nil",
        (f"{REDIS}::test_a_claim_whose_answer_was_lost_is_answered_again",),
    ),
    Mutant(
        "redis: a worker that ended a job and lost the answer gets it again",
        "record/lua/finish.lua",
        "if answered() then return 1 end\n",
        "",
        (f"{REDIS}::test_a_call_without_an_answer_takes_effect_once",),
    ),
    Mutant(
        "redis: tokens grow though the last ones were lost in a failover",
        "record/lua/claim.lua",
        "clock[1] * 1000000 + clock[2])",
        "0)",
        (f"{REDIS}::test_tokens_increase_even_if_the_last_ones_were_lost",),
    ),
    Mutant(
        "redis: a job that is submitted again is kept once",
        "record/lua/submit.lua",
        "if redis.call('EXISTS', key) == 0 then",
        "if true then",
        (f"{SUBMITTING}::test_a_submission_that_is_repeated_is_kept_once[redis]",),
    ),
    Mutant(
        "redis: a lease in time is its job's",
        "record/lua/acquire.lua",
        "tonumber(until_ms) > tonumber(now)",
        "false",
        (f"{RUNS}::test_a_table_held_on_another_machine_is_free_when_the_lease_ends[redis]",),
    ),
    Mutant(
        "redis: whether a process lives is asked of its own holder",
        "record/lua/acquire.lua",
        "  if held_by ~= looked_at then return {'look', held_by} end\n",
        "",
        (f"{RUNS}::test_a_table_held_by_a_dead_process_is_free_at_once[redis]",),
    ),
    Mutant(
        "redis: who lost the table records nothing",
        "record/lua/save_run.lua",
        "if holder ~= '' and not holds(uuid, holder) then return 0 end\n",
        "",
        (f"{RUNS}::test_a_job_that_lost_its_table_records_nothing[redis]",),
    ),
    Mutant(
        "redis: a job that holds its table is not forgotten",
        "record/lua/prune_runs.lua",
        "if redis.call('EXISTS', P .. 'leases:' .. id) == 0 then",
        "if true then",
        (f"{RUNS}::test_running_and_unresolved_jobs_and_holders_of_tables_are_never_deleted[redis]",),
    ),
)
