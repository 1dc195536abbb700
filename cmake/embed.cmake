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

# vram_embed_bytes(MODULE TEMPLATE NAME FILE [NAME FILE]…): binary files in the program. TEMPLATE, a source below src/, has
# @NAME_BYTES@ and @NAME_SIZE@ in the place of each.
function(vram_embed_bytes module template)
  set(files ${ARGN})
  while(files)
    list(POP_FRONT files name file)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${file}")
    file(SIZE "${file}" ${name}_SIZE)
    file(READ "${file}" ${name}_BYTES HEX)
    string(REGEX REPLACE "(..)" "0x\\1," ${name}_BYTES "${${name}_BYTES}")
  endwhile()
  string(REGEX REPLACE "\\.in$" "" source "${CMAKE_CURRENT_BINARY_DIR}/embedded/${template}")
  configure_file("${CMAKE_CURRENT_SOURCE_DIR}/${template}" "${source}" @ONLY)
  target_sources(vram_${module} PRIVATE "${source}")
endfunction()
