"""Example configuration files."""

SERVICE_EXAMPLE = """\
# config.yaml
server:
  host: 0.0.0.0
  port: 8080

catalog:
  type: rest
  uri: http://catalog:8181

compaction:
  target_file_size: 1GB
  max_parallelism: 4

scheduler:
  enabled: true
  default_schedule: "0 */6 * * *"  # Every 6 hours
"""

BASIC_EXAMPLE = """\
# config.yaml
catalog:
  type: rest
  uri: ${CATALOG_URI}

storage:
  type: s3
  bucket: ${S3_BUCKET}
  region: ${AWS_REGION}

compaction:
  strategies:
    small_files:
      enabled: true
      threshold: 32MB
      target_size: 1GB

    delete_files:
      enabled: true
      fragment_ratio_threshold: 0.1
"""

TABLES_EXAMPLE = """\
tables:
  - name: events
    schedule: "*/30 * * * *"  # Every 30 minutes
    strategy: time_series
    options:
      target_file_size: 512MB
      partition_filter: "date >= current_date - 7"

  - name: dimensions
    schedule: "0 2 * * *"     # Daily at 2 AM
    strategy: small_files
    options:
      target_file_size: 1GB
"""
