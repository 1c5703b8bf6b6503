"""Models that were made to harm: each is refused with words that help, or runs."""
