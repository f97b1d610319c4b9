"""A resource that compacts tables in the process of the step, without a service."""

from dataclasses import asdict

from pydantic import Field

from tidyberg_dagster.jobs import JobRunner, TableJob, TableRequest, TableScore, TidybergError


class TidybergInProcess(JobRunner):
    """Uses tidyberg and PyIceberg of this environment. PyIceberg's configuration has the catalogs."""

    catalog: str = Field(default="default", description="A catalog of PyIceberg.")
    engine: str | None = Field(default=None, description="spark, inline or auto. By default the settings decide.")

    def run(self, request: TableRequest, key: str) -> TableJob:
        del key  # the job ends with the step, and a job that died is recovered by the next one
        if request.kind != "compact":
            raise TidybergError(f"{request.kind!r} needs a service. Use TidybergService.")
        from pyiceberg.catalog import load_catalog

        import tidyberg
        from tidyberg import errors

        table = load_catalog(request.catalog or self.catalog).load_table(request.table)
        try:
            result = tidyberg.compact(table, strategy=request.strategy, engine=self.engine, **request.options)
        except errors.TidybergError as error:
            raise TidybergError(str(error)) from error
        return TableJob(
            job_id=result.job.job_id,
            outcome=result.outcome,
            stats=asdict(result.stats),
            dollars=result.job.actual_dollars,
            snapshot_id=result.snapshot_id,
        )

    def health(self, table: str, catalog: str | None = None) -> TableScore:
        from pyiceberg.catalog import load_catalog

        import tidyberg

        plan = tidyberg.plan(load_catalog(catalog or self.catalog).load_table(table))
        return TableScore(
            score=plan.health,
            reasons=tuple(dict.fromkeys(each.verdict.reason for each in plan.partitions)),
            files=sum(each.files for each in plan.partitions),
            small_files=sum(each.small_files for each in plan.partitions),
        )
