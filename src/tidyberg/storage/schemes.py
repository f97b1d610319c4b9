"""URI schemes of locations, by kind of storage."""

S3_SCHEMES = ("s3", "s3a", "s3n")
GCS_SCHEMES = ("gs", "gcs")
AZURE_SCHEMES = ("abfs", "abfss", "wasb", "wasbs")
HDFS_SCHEMES = ("hdfs", "viewfs")
