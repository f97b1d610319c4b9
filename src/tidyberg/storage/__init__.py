"""Reads, writes, lists, copies and deletes files on local disks, S3 and other object stores. Knows no file format."""
