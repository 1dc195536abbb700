# Test programs. In addition to the flags of all targets, they are compiled with little optimization, since their code runs
# once, and with precompiled headers. Measurements of speed belong in bench/.
set(VRAM_TEST_TIMEOUT 300 CACHE STRING "Seconds after which one test counts as failed")
if(NOT VRAM_TESTS)
  return()
endif()
include(GoogleTest)

add_library(vram_test_flags INTERFACE)
target_link_libraries(vram_test_flags INTERFACE vram::dep::gtest vram::dep::fmt vram::dep::expected)
# g++ 12 at -O1 warns of copies past the end of short strings where there are none (its bug 105329).
target_compile_options(vram_test_flags INTERFACE $<$<CONFIG:Release>:-O1>
  $<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds;-Wno-stringop-overflow;-Wno-stringop-overread>)

# The only object that knows where this clone lies: all others have the same compiler options in every clone, so ccache can
# reuse them.
configure_file(cmake/test_paths.cpp.in test_paths.cpp @ONLY)
add_library(vram_test_paths OBJECT "${CMAKE_BINARY_DIR}/test_paths.cpp")
target_link_libraries(vram_test_paths PRIVATE vram_flags)

# vram_add_tests(<program>): makes each test of the program an entry of ctest with a timeout.
function(vram_add_tests program)
  target_link_libraries(${program} PRIVATE vram_test_flags vram_test_paths)
  if(VRAM_UNITY)
    # All programs share one precompiled header, since they are compiled with the same flags.
    get_property(owner GLOBAL PROPERTY vram_precompiled)
    if(owner)
      target_precompile_headers(${program} REUSE_FROM ${owner})
    else()
      set_property(GLOBAL PROPERTY vram_precompiled ${program})
      target_precompile_headers(${program} PRIVATE <gmock/gmock.h> <gtest/gtest.h> <fmt/format.h> <tl/expected.hpp>
        <algorithm> <array> <cstdint> <filesystem> <fstream> <functional> <map> <memory> <mutex> <optional> <random> <span>
        <string> <string_view> <thread> <unordered_map> <utility> <vector>)
    endif()
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      target_compile_options(${program} PRIVATE -fpch-preprocess)  # without it ccache cannot tell the contents of the header
    else()
      target_compile_options(${program} PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
    endif()
  endif()
  # The tests are listed when ctest runs, not when the program is built.
  gtest_discover_tests(${program} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
    TEST_PREFIX "${program}:" PROPERTIES TIMEOUT ${VRAM_TEST_TIMEOUT} LABELS ${program})
endfunction()
