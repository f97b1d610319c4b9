"""An S3 client without an SDK: signs, retries and counts requests. Knows no tables."""
