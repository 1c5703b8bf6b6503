"""Matrix products on GPUs: block tiles through LDS into matrix cores, or into plain FMAs."""
