"""The kernel families: each a folder with its match, schedules, estimate and generator."""
