"""How the service serves: where it listens, how jobs wait and run, and how long they are remembered."""

from pathlib import Path

from pydantic import Field, model_validator

from tidyberg.model.sizes import MB
from tidyberg.settings.fields import Section, Size


class Server(Section):
    host: str = "127.0.0.1"
    port: int = Field(8080, ge=0, le=65535)
    tls_cert: Path | None = Field(None, description="Its certificate, with those that lead to its issuer, as PEM.")
    tls_key: Path | None = Field(None, description="The certificate's private key, as PEM.")
    tls_client_ca: Path | None = Field(
        None, description="Clients must show a certificate of these authorities, besides a key or a token."
    )
    threads: int = Field(16, ge=1, le=256, description="Calls of each kind that are answered at once.")
    max_wait_seconds: float = Field(
        0.5,
        gt=0,
        description="How long a call may wait to be begun; what would wait longer is refused with 503.",
    )
    max_request_size: Size = Field(MB, description="Largest body of a request.")
    request_timeout_seconds: float = Field(30.0, gt=0, description="How long a client may take to send a request.")
    header_timeout_seconds: float = Field(
        10.0, gt=0, description="How long a connection may stay open before the headers of a request have come."
    )
    keep_alive_seconds: float = Field(
        5.0, gt=0, description="How long a connection stays open between two requests; longer than a load balancer's."
    )
    max_connections: int = Field(
        4000, ge=1, description="At once, watchers included; beyond it the longest idle one makes room, else 503."
    )
    max_connections_per_address: int = Field(
        1000, ge=1, description="The same for one address; behind a load balancer raise it to max_connections."
    )
    probe_port: int | None = Field(
        None, ge=0, le=65535, description="Another port that answers /health… only, without TLS, for probes."
    )
    requests_per_second: float = Field(1000.0, gt=0, description="Of one principal, or of one address.")
    burst: int = Field(2000, ge=1, description="Requests that one may send at once before that counts.")
    max_streams: int = Field(2000, ge=1, description="Streams of events at once; more are refused with 503.")
    max_streams_per_principal: int = Field(
        100, ge=1, description="The same for one principal, or one address; more are refused with 429."
    )
    drain_seconds: float = Field(
        5.0, ge=0, description="How long requests are answered after SIGTERM, while the service is no longer ready."
    )
    ready_needs_catalog: bool = Field(
        False, description="Whether the service is ready only while a catalog answers; jobs wait for it otherwise."
    )
    heartbeat_seconds: float = Field(15.0, gt=0, description="How often watchers of a quiet job hear something.")

    @model_validator(mode="after")
    def _certificate_and_key_belong_together(self) -> "Server":
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("tls_cert and tls_key belong together: give both, or none")
        if self.tls_client_ca is not None and self.tls_cert is None:
            raise ValueError("tls_client_ca needs tls_cert and tls_key")
        return self


class Queue(Section):
    workers: int = Field(2, ge=0, le=256, description="Jobs this process runs at once; 0 only takes and shows jobs.")
    max_running: int | None = Field(None, ge=1, description="Jobs that all replicas together run at once.")
    max_running_per_tenant: int | None = Field(None, ge=1, description="The same for each tenant.")
    max_attempts: int = Field(12, ge=1, description="How often a job is tried whose failures may pass.")
    retry_seconds: float = Field(10.0, gt=0, description="How long it waits after the first; twice as long each time.")
    max_retry_seconds: float = Field(900.0, gt=0, description="How long it waits at most.")
    claim_seconds: float = Field(
        30.0, ge=1, description="A replica that has not been heard of for so long has died: others take its jobs."
    )
    lease_seconds: float = Field(60.0, ge=1, description="The same for the tables that its jobs hold.")
    poll_seconds: float = Field(1.0, gt=0, description="How often workers look for jobs that others took in.")
    grace_seconds: float = Field(20.0, ge=0, description="How long running jobs may go on when the service is stopped.")
    upkeep_seconds: float = Field(
        60.0, gt=0, description="How often runs that died are settled, and jobs that ended long ago forgotten."
    )
    estimate: bool = Field(True, description="Plan waiting jobs in the background to tell how long they will take.")


class Retention(Section):
    jobs_days: float = Field(30.0, gt=0, description="How long jobs that ended are remembered.")
    plans_days: float = Field(7.0, gt=0, description="How long a plan that was shown can be applied.")
    audit_days: float | None = Field(None, gt=0, description="How long the audit log goes back; for ever by default.")
