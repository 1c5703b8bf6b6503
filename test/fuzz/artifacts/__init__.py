"""Artifacts whose plans were changed by somebody who knows how to hash."""
