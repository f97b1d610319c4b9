"""Builds tasks from a plan's groups: schemas, write settings, output directories, delete contents."""
