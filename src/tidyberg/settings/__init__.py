"""Settings: tidyberg.yaml, the environment, and the catalogs they lead to."""
