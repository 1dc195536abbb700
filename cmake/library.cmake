# libvram.so: the rooms that go into somebody else's process, compiled once more for it: nothing but vram_* is seen from
# outside (src/capi/vram.map), and nothing but libc is needed, so libstdc++, libgcc and fmt lie inside it. Not in builds
# with sanitizers, whose run-time libraries it would need: there the rooms' own tests cover the same code.
if(VRAM_SANITIZE)
  return()
endif()

set(library_sources)
foreach(room base gpu gpu/cuda gpu/nvml pool record capi)
  file(GLOB found CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${room}/*.cpp")
  list(APPEND library_sources ${found})
endforeach()
list(FILTER library_sources EXCLUDE REGEX "_test\\.cpp$")

add_library(vram_library SHARED ${library_sources})
set_target_properties(vram_library PROPERTIES
  OUTPUT_NAME vram CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
  LINK_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/capi/vram.map")
target_include_directories(vram_library PUBLIC "${CMAKE_SOURCE_DIR}/include")
target_compile_options(vram_library PRIVATE -ffunction-sections -fdata-sections)
target_link_libraries(vram_library PRIVATE vram_flags fmt::fmt-header-only vram::dep::expected)
target_link_options(vram_library PRIVATE -static-libstdc++ -static-libgcc -Wl,--gc-sections -Wl,--exclude-libs,ALL
  "-Wl,--version-script=${CMAKE_CURRENT_SOURCE_DIR}/capi/vram.map" -Wl,--no-undefined)

# Beside the Python package, which loads it; the headers beside it, for C and C++.
set(VRAM_PACKAGE_DIR "lib/vram" CACHE STRING "Where the library and its headers are installed")
if(SKBUILD)
  set(VRAM_PACKAGE_DIR "vram")
endif()
install(TARGETS vram_library LIBRARY DESTINATION "${VRAM_PACKAGE_DIR}/lib" COMPONENT vram)
install(DIRECTORY "${CMAKE_SOURCE_DIR}/include/vram" DESTINATION "${VRAM_PACKAGE_DIR}/include" COMPONENT vram)
