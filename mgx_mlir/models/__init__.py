"""Models that need the host: compiled parts, the host's operators, programs by the sizes met."""
