"""HLS and DASH over one set of CMAF segments, by Shaka Packager, and verified by our own eyes."""
