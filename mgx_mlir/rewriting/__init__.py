"""Questions that passes ask of the IR: queries, views, fusion's conditions, lifetimes."""
