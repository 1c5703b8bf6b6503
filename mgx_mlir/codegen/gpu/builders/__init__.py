"""Building blocks of all GPU families: functions, launches, lanes, memory, LLVM passes."""
