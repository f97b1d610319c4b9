"""What every test shares."""

from hypothesis import HealthCheck, settings

# Shared machines are slow at odd moments: a slow example is no defect, a wrong one is.
settings.register_profile("tidyberg", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile("tidyberg")
