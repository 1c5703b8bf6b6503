"""The recipes of a product's kernel: a module's `RECIPE` is found by scanning this folder."""
