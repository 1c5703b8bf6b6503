"""Artifacts as each version of the stored form wrote them, kept for good."""
