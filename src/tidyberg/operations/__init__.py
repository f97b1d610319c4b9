"""Table operations for tenants: create, write, query and compact tables by one small JSON interface."""
