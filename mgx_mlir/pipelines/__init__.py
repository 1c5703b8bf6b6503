"""The passes in order: named pipelines, their runner, and the plan made of the result."""
