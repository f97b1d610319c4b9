"""Executes tasks: engines, the building of tasks, and the kernel that runs one task."""
