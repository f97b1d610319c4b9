"""Tests of integrations that need no virtual environment of their own. `make test-integrations` runs the others."""
