"""Reads the folders that `peerbed run` writes, and makes tables, figures and reports of them."""
