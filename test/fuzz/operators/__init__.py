"""Random nodes of single operators beside two references: see __main__.py."""
