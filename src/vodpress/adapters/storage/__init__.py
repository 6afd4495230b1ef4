"""Object storage behind one port."""
