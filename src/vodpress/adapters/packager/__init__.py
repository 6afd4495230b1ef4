"""Shaka Packager: HLS and DASH over one set of CMAF segments."""
