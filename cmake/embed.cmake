# vram_embed(MODULE FILE TEMPLATE): a text file as a string in the program. TEMPLATE, a source below src/, has @VRAM_TEXT@ in its
# place; the file counts as a source of the module. VERSION_OF_VRAM in the file stands for the version.
function(vram_embed module file template)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${file}")
  file(READ "${file}" VRAM_TEXT)
  string(REPLACE "VERSION_OF_VRAM" "${PROJECT_VERSION}" VRAM_TEXT "${VRAM_TEXT}")
  string(REGEX REPLACE "\\.in$" "" source "${CMAKE_CURRENT_BINARY_DIR}/embedded/${template}")
  configure_file("${CMAKE_CURRENT_SOURCE_DIR}/${template}" "${source}" @ONLY)
  target_sources(vram_${module} PRIVATE "${source}")
endfunction()
