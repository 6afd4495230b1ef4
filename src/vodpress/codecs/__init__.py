"""One file a codec: its arguments, limits, levels and RFC 6381 string."""
