# Clang, as libMLIR itself: the identity of a trait (ConstantLike, IsTerminator, ...) is
# the name that the compiler prints for its type, and GCC prints another. Built by GCC,
# every question of libMLIR whether one of our ops has a trait is answered no.
# Included before project(); a clang that the caller names is left alone. A CXX that is
# another compiler is set by Python build front ends and means nothing here.
if(NOT CMAKE_CXX_COMPILER AND NOT "$ENV{CXX}" MATCHES "clang")
  find_program(MGX_CLANG NAMES clang++-22 clang++ PATHS /usr/lib/llvm-22/bin)
  if(MGX_CLANG)
    set(CMAKE_CXX_COMPILER "${MGX_CLANG}")
  endif()
endif()
