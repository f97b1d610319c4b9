"""Settings for the service: its address, its queue of jobs, and how long it keeps records."""

from pathlib import Path

from pydantic import Field, model_validator

from tidyberg.model.sizes import MB
from tidyberg.settings.fields import Section, Size


class Server(Section):
    host: str = "127.0.0.1"
    port: int = Field(8080, ge=0, le=65535)
    tls_cert: Path | None = Field(None, description="Its certificate chain, as PEM.")
    tls_key: Path | None = Field(None, description="The private key of the certificate, as PEM.")
    tls_client_ca: Path | None = Field(
        None, description="Clients must also present a certificate of these authorities."
    )
    threads: int = Field(16, ge=1, le=256, description="The most calls of each kind that run at once.")
    max_wait_seconds: float = Field(
        0.5,
        gt=0,
        description="How long a call may wait. A call that would wait longer gets 503.",
    )
    max_request_size: Size = Field(MB, description="The largest body of a request.")
    request_timeout_seconds: float = Field(30.0, gt=0, description="How long a client may take to send a request.")
    header_timeout_seconds: float = Field(
        10.0, gt=0, description="How long a connection may stay open before the headers of a request arrive."
    )
    keep_alive_seconds: float = Field(
        5.0, gt=0, description="How long a connection stays open between two requests. Use more than the load balancer."
    )
    max_connections: int = Field(
        4000, ge=1, description="The most open connections. A new one replaces the longest idle one, or gets 503."
    )
    max_connections_per_address: int = Field(
        1000, ge=1, description="The same for one address. Behind a load balancer, use the value of max_connections."
    )
    probe_port: int | None = Field(
        None, ge=0, le=65535, description="Another port for probes, without TLS. It answers only /health…."
    )
    requests_per_second: float = Field(1000.0, gt=0, description="The most requests of one principal or address.")
    burst: int = Field(2000, ge=1, description="The most requests that one may send in a burst.")
    max_streams: int = Field(2000, ge=1, description="The most event streams. Further ones get 503.")
    max_streams_per_principal: int = Field(
        100, ge=1, description="The same for one principal or address. Further ones get 429."
    )
    drain_seconds: float = Field(
        5.0, ge=0, description="How long the service answers requests after SIGTERM, when it is no longer ready."
    )
    ready_needs_catalog: bool = Field(
        False, description="Whether the service is ready only while a catalog answers. Jobs wait for it in any case."
    )
    heartbeat_seconds: float = Field(
        15.0, gt=0, description="How often an event stream without events sends a comment."
    )

    @model_validator(mode="after")
    def _certificate_and_key_belong_together(self) -> "Server":
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("tls_cert and tls_key belong together: give both, or none")
        if self.tls_client_ca is not None and self.tls_cert is None:
            raise ValueError("tls_client_ca needs tls_cert and tls_key")
        return self


class Queue(Section):
    workers: int = Field(
        2,
        ge=0,
        le=256,
        description="The most jobs that this process runs at once. With 0 it only accepts and shows jobs.",
    )
    max_running: int | None = Field(None, ge=1, description="The most jobs that all replicas together run at once.")
    max_running_per_tenant: int | None = Field(None, ge=1, description="The same for each tenant.")
    max_attempts: int = Field(12, ge=1, description="The most attempts of a job whose errors are transient.")
    retry_seconds: float = Field(10.0, gt=0, description="The wait after the first attempt. It doubles each time.")
    max_retry_seconds: float = Field(900.0, gt=0, description="The longest wait between two attempts.")
    claim_seconds: float = Field(
        30.0, ge=1, description="A replica that is silent for so long counts as dead. Others take over its jobs."
    )
    lease_seconds: float = Field(60.0, ge=1, description="The same for the leases of the tables of its jobs.")
    poll_seconds: float = Field(1.0, gt=0, description="How often workers look for jobs that other replicas accepted.")
    grace_seconds: float = Field(20.0, ge=0, description="How long running jobs may continue when the service stops.")
    upkeep_seconds: float = Field(
        60.0, gt=0, description="How often the service recovers dead runs and removes old records."
    )
    estimate: bool = Field(
        True, description="Whether waiting jobs are planned in the background, to estimate how long they take."
    )


class Retention(Section):
    jobs_days: float = Field(30.0, gt=0, description="How long records of ended jobs are kept.")
    plans_days: float = Field(7.0, gt=0, description="How long a returned plan can be applied.")
    audit_days: float | None = Field(None, gt=0, description="How long audit entries are kept. By default for ever.")
