"""Properties are about results, not about how fast this machine is just now."""

from hypothesis import settings

settings.register_profile("domain", deadline=None)
settings.load_profile("domain")
