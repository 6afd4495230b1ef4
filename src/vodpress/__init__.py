"""vodpress: a file goes in, a verified adaptive stream comes out."""

__version__ = "0.1.0"
