"""One file a job kind, in pipeline order: upload, ingest, encode, stitch, thumbnails, package, publish."""
