"""The recipes of products: a module's `RECIPE` is found by scanning this folder.

A convolution of one channel a group is plain sums: `depthwise` with channels last, or `direct`.
Every other product is a product of matrices: `tiles` is the general recipe, the others are for few
rows (`broad`, `skinny`) and for small images or few channels (`resident`, `narrow`).
"""
