"""The analyses that passes share: queries, views, conditions of fusion, lifetimes."""
