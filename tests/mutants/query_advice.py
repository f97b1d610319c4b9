"""Rules of advice on layouts: no file with a matching row is skipped, and no gain is promised that cannot be had."""

from tests.mutants.mutant import Mutant

SQL = "tests/planning/workload/test_sql_queries.py"
FILTERS = "tests/planning/workload/test_report_filters.py"
PRUNING = "tests/planning/workload/test_pruning.py"
RECOMMEND = "tests/planning/workload/test_recommend.py"
BOUNDARIES = "tests/planning/workload/test_boundaries.py"
LEDGER = "tests/record/contract/test_ledger.py"

QUERY_ADVICE = (
    Mutant(
        "advice: a condition that bounds cannot decide rules nothing out in a disjunction",
        "model/workload.py",
        "if not flat or any(isinstance(one, Anything) for one in flat):",
        "if not flat:",
        (f"{SQL}::test_a_condition_is_read_as", PRUNING),
    ),
    Mutant(
        "advice: the negation of < is >=",
        "planning/workload/conditions.py",
        "Operator.LT: Operator.GE,\n    Operator.LE: Operator.GT,",
        "Operator.LT: Operator.GT,\n    Operator.LE: Operator.GE,",
        (f"{SQL}::test_a_condition_is_read_as",),
    ),
    Mutant(
        "advice: a day that is compared with <= ends with its last moment",
        "planning/workload/conditions.py",
        "if operator in (Operator.GT, Operator.LE):",
        "if operator is Operator.GT:",
        (f"{SQL}::test_a_monotone_function_is_a_range_of_its_column",),
    ),
    Mutant(
        "advice: a filter on one use of a shared expression does not filter its scan",
        "planning/workload/sql_queries.py",
        "self._uses[id(source)] > 1",
        "self._uses[id(source)] > 2",
        (f"{SQL}::test_a_filter_on_one_use_of_a_shared_expression_does_not_filter_the_scan",),
    ),
    Mutant(
        "advice: the condition of an outer join filters nothing",
        "planning/workload/sql_queries.py",
        "is not None and not join.side and",
        "is not None and",
        (f"{SQL}::test_the_condition_of_an_outer_join_filters_nothing",),
    ),
    Mutant(
        "advice: a filter does not pass a limit",
        "planning/workload/sql_queries.py",
        'or select.args.get("limit")',
        "",
        (f"{SQL}::test_a_filter_after_a_limit_or_window_does_not_reach_the_scan",),
    ),
    Mutant(
        "advice: bucket and other transforms of a reported filter have no order",
        "planning/workload/report_filters.py",
        'if isinstance(term, dict) and term.get("type") == "transform":\n        return None',
        'if isinstance(term, dict) and term.get("type") == "transform":\n        return str(term.get("term"))',
        (f"{FILTERS}::test_a_filter_is_read_without_its_values",),
    ),
    Mutant(
        "advice: a file without bounds is always read",
        "planning/workload/ranks.py",
        "np.where(unbounded[lows], BELOW, found[lows])",
        "found[lows]",
        (
            f"{PRUNING}::test_a_file_without_bounds_is_always_read",
            f"{PRUNING}::test_nan_is_above_all_values_and_is_no_bound",
        ),
    ),
    Mutant(
        "advice: NaN is no bound",
        "planning/workload/ranks.py",
        "unbounded = is_null | is_nan",
        "unbounded = is_null",
        (f"{PRUNING}::test_nan_is_above_all_values_and_is_no_bound",),
    ),
    Mutant(
        "advice: a file that begins with the value is read by <=",
        "planning/workload/pruning.py",
        "return box.lows <= value\n",
        "return box.lows < value\n",
        (f"{PRUNING}::test_a_file_that_begins_with_the_value",),
    ),
    Mutant(
        "advice: the end of a prefix skips the surrogates",
        "planning/workload/ranks.py",
        "chr(0xE000 if raised == 0xD800 else raised)",
        "chr(raised)",
        (f"{PRUNING}::test_the_end_of_a_prefix",),
    ),
    Mutant(
        "advice: few sampled rows promise no more files than they can show",
        "planning/workload/layouts.py",
        "max(1, min(self.files, self.rows // ROWS_PER_FILE))",
        "max(1, min(self.files, self.rows))",
        (f"{RECOMMEND}::test_few_sampled_rows_never_promise_more_than_they_can_show",),
    ),
    Mutant(
        "advice: partitions without sampled rows stay as they are",
        "planning/workload/recommend.py",
        "return np.flatnonzero(~np.isin(self.files.partitions, sampled))",
        "return np.zeros(0, np.int64)",
        (f"{RECOMMEND}::test_partitions_are_laid_out_one_by_one_and_unsampled_ones_stay",),
    ),
    Mutant(
        "advice: without a gain the answer is none",
        "planning/workload/recommend.py",
        "if least > _WORTH * before:",
        "if least > before + 1:",
        (f"{RECOMMEND}::test_none_is_honest_if_every_file_has_what_is_asked_for",),
    ),
    Mutant(
        "advice: <= is cut after its value",
        "planning/workload/boundaries.py",
        "(Operator.GT, Operator.LE, Operator.EQ, Operator.IN)",
        "(Operator.GT, Operator.EQ, Operator.IN)",
        (f"{BOUNDARIES}::test_a_bound_between_two_values_cuts_no_file_that_ends_there",),
    ),
    Mutant(
        "scan reports: the oldest days are dropped",
        "record/sqlite_ledger.py",
        "(report.day - SCAN_REPORT_DAYS,)",
        "(0,)",
        (f"{LEDGER}::test_the_oldest_days_of_scan_reports_are_dropped",),
    ),
    Mutant(
        "scan reports: a day has a bounded number of shapes",
        "record/lua/add_scan_report.lua",
        "then shape = ARGV[6] end",
        "then shape = ARGV[3] end",
        (f"{LEDGER}::test_a_day_has_a_bounded_number_of_shapes",),
    ),
)
