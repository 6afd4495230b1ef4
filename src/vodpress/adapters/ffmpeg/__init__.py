"""FFmpeg and ffprobe: pure argument lists, the one place that spawns, and the parsers of what they print."""
