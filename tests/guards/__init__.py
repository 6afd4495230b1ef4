"""Every guard of the pipeline, and the test that notices when it is gone: `make guards`."""
