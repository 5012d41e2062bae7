"""Hypothesis profiles for every suite: `ci`, the default,
and `nightly` (pytest --hypothesis-profile=nightly).
"""

from hypothesis import HealthCheck, settings

settings.register_profile("ci", derandomize=True, deadline=None, max_examples=50, print_blob=True)
settings.register_profile(
    "nightly", deadline=None, max_examples=2000, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("ci")
