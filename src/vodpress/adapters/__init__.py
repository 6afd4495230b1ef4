"""Everything that touches the world: database, queue, FFmpeg, packager, object storage."""
