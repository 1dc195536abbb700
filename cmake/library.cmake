# libvram.so: capi/ and what it needs of other modules, loaded into other people's processes. It exports vram_* alone
# (src/capi/vram.map) and needs libc alone at run time, so libstdc++, libgcc, fmt and zstd are linked in. It is not part of
# builds with sanitizers, whose run-time libraries it would need: there the modules' own tests cover the same code.
if(VRAM_SANITIZE)
  return()
endif()

add_library(vram_library SHARED "$<TARGET_OBJECTS:vram_capi>")
set_target_properties(vram_library PROPERTIES OUTPUT_NAME vram
  LINK_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/capi/vram.map")
target_link_libraries(vram_library PRIVATE vram_capi)
target_link_options(vram_library PRIVATE -Wl,-z,nodelete -static-libstdc++ -static-libgcc -Wl,--gc-sections -Wl,--as-needed
  "-Wl,--version-script=${CMAKE_CURRENT_SOURCE_DIR}/capi/vram.map" -Wl,--no-undefined)

# libvram_tap.so: preloaded into programs that are recorded. It needs libc alone, without a C++ run-time library.
file(GLOB tap_sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/tap/*.cpp")
add_library(vram_tap SHARED ${tap_sources})
set_target_properties(vram_tap PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
  LINK_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/tap/tap.map")
target_include_directories(vram_tap PRIVATE "${CMAKE_SOURCE_DIR}/include")
target_compile_options(vram_tap PRIVATE -fno-exceptions -fno-rtti -fno-threadsafe-statics
  -ftls-model=initial-exec)
target_link_libraries(vram_tap PRIVATE vram_flags)
target_link_options(vram_tap PRIVATE -static-libstdc++ -static-libgcc -Wl,--as-needed -Wl,-z,defs
  "-Wl,--version-script=${CMAKE_CURRENT_SOURCE_DIR}/tap/tap.map")

# Installed next to the Python package, which loads it; the headers for C and C++ are next to it.
set(VRAM_PACKAGE_DIR "lib/vram" CACHE STRING "Where the library and its headers are installed")
if(SKBUILD)
  set(VRAM_PACKAGE_DIR "vram")
endif()
install(TARGETS vram_library vram_tap LIBRARY DESTINATION "${VRAM_PACKAGE_DIR}/lib" COMPONENT vram)
install(DIRECTORY "${CMAKE_SOURCE_DIR}/include/vram" DESTINATION "${VRAM_PACKAGE_DIR}/include" COMPONENT vram
  FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
