"""The path that every kernel can take: one thread an element or a row."""
