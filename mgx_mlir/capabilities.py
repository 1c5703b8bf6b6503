"""The limits that kernels of every chip share: passes plan with them, and generators keep to them.

Passes cut a program into kernels before a chip is known. A pass that shapes work for a generator
reads the generator's limit here, and the generator refuses work by the same name. Facts of one
chip are in `artifact.target`; the rates below are those of the chip that the rule was made for.
"""

from __future__ import annotations

# Products ---------------------------------------------------------------------------------

# Products that are summed for a result, at the least: moving tiles through LDS costs more than it
# saves for shallower ones. They have kernels of their own, with no prologue and no second term.
LEAST_DEPTH = 8

# Elements along k: a multiple of the depth of every tile in LDS whose elements are computed on
# their way there (64 bytes of a row, of types of 16 bits and more). A depth that is no
# multiple ends in a tile with zeros past the end.
DEPTH_STEP = 64

# Depth that matrix instructions of bytes take at a time, past whose end they multiply zeros.
BYTES_DEPTH = 64

# Rows, or columns, of the tile of a product that a work-group usually computes. Work-groups that
# read the same elements of an operand repeat its prologue.
PRODUCT_TILE = 128

# Rows of a product that vector units multiply, at most, and columns of rows that are normalised by
# the product that reads them: its waves keep a tile's rows in registers.
FEW_ROWS, NORMALISED_COLUMNS = 4, 2048

# Elements of a pixel of an image of few channels in LDS, and of a tap of its filters.
PIXEL_CHANNELS = 4

# Loops ------------------------------------------------------------------------------------

# Operations and elements of a trip of a loop that is one kernel, for each part of it that may be a
# work-group of its own: about what a work-group does in the time of the five launches that a trip
# of a recurrent layer would take (64 GFLOP/s of f32 as modelled for gfx942, 3 us a launch).
MOST_TRIP_FLOPS, MOST_TRIP_ELEMENTS = 1 << 20, 1 << 16

# Trips of such a loop: a kernel that runs for seconds is taken for one that hangs.
MOST_TRIPS = 1 << 16

# Memory -----------------------------------------------------------------------------------

# Bytes of the widest access of a lane to LDS and to global memory (b128 instructions: AMD's CDNA 3
# ISA, chapter 9; RDNA 3 ISA, chapter 11).
CHUNK_BYTES = 16

# Bytes of a tensor that a kernel's offsets reach: a raw buffer has 32-bit offsets, and the upper
# half means "outside" (CDNA 3 ISA, 9.1.5.1: range checking of raw buffers).
MAX_BYTES = 0x7FFFFF00

# Tensors of one function: a raw buffer takes 4 of about 100 scalar registers.
MAX_TENSORS = 22

# Rates ------------------------------------------------------------------------------------

# Operations, on one element each, that a compute unit does in the time that memory gives it a
# byte: 128 lanes at 2.1 GHz, and 5.3 TB/s for 304 units (AMD's CDNA 3 white paper, MI300X).
OPERATIONS_A_BYTE = 16

# Bytes that memory delivers in the time of a launch: 3 us at a third of 1 TB/s, the rate that
# small kernels reach.
LAUNCH_BYTES = 1 << 20

# Filters of a convolution on a CPU that lie together for each element of their windows: whole
# vectors of every processor. The first size that divides the filters of a group counts.
FILTER_BLOCKS = (32, 16)
