"""The rules of the platform: states, plans, keys, failures. Pure: no I/O, no clock, no environment."""
