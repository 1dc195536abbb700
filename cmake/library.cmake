# The libraries that are loaded into other people's processes. They need libc alone at run time, so libstdc++, libgcc, fmt and
# zstd are linked in, and export their own functions alone. They are not part of builds with sanitizers, whose run-time
# libraries they would need: there the modules' own tests cover the same code.
if(VRAM_SANITIZE)
  return()
endif()

# vram_shared_library(<target> <name> <module> <symbols>): lib<name>.so from the module and what it uses. <symbols> lists what
# it exports.
function(vram_shared_library target name module symbols)
  add_library(${target} SHARED "$<TARGET_OBJECTS:${module}>")
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name} LINK_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${symbols}")
  target_link_libraries(${target} PRIVATE ${module})
  target_link_options(${target} PRIVATE -Wl,-z,nodelete -static-libstdc++ -static-libgcc -Wl,--gc-sections -Wl,--as-needed
    "-Wl,--version-script=${CMAKE_CURRENT_SOURCE_DIR}/${symbols}" -Wl,--no-undefined)
endfunction()

# libvram.so: capi/, which training processes load, and therefore no reader of recordings.
vram_shared_library(vram_library vram vram_capi capi/vram.map)

# libvram_report.so: reports/, the readers and explain/ for Python and other languages.
vram_shared_library(vram_report_library vram_report vram_reports reports/report.map)

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

# Installed next to the Python package, which loads them; the headers for C and C++ are next to them.
set(VRAM_PACKAGE_DIR "lib/vram" CACHE STRING "Where the library and its headers are installed")
if(SKBUILD)
  set(VRAM_PACKAGE_DIR "vram")
endif()
install(TARGETS vram_library vram_report_library vram_tap LIBRARY DESTINATION "${VRAM_PACKAGE_DIR}/lib" COMPONENT vram)
# The translations, which the Python package reads itself.
file(GLOB vram_translations CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/po/*.po")
install(FILES ${vram_translations} DESTINATION "${VRAM_PACKAGE_DIR}/po" COMPONENT vram)
install(DIRECTORY "${CMAKE_SOURCE_DIR}/include/vram" DESTINATION "${VRAM_PACKAGE_DIR}/include" COMPONENT vram
  FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
