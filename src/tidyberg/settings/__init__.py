"""Settings from tidyberg.yaml and the environment, and the catalogs that they name."""
