"""Machine code: LLVM's code generators, linkers, ELF files, device libraries, metadata."""
