"""The job queue: procrastinate, and the guarantees added to it."""
