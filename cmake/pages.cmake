# Manual pages and completions. The program writes them after each build, and they are installed where man and the shells
# search for them. A program with sanitizers, or for another processor, does not run here and has none.
if(VRAM_SANITIZE OR VRAM_SYNTAX_ONLY OR NOT CMAKE_SYSTEM_PROCESSOR STREQUAL CMAKE_HOST_SYSTEM_PROCESSOR)
  return()
endif()
add_custom_command(TARGET vram POST_BUILD VERBATIM
  COMMAND "${CMAKE_COMMAND}" "-DVRAM=$<TARGET_FILE:vram>" "-DFOLDER=${CMAKE_BINARY_DIR}/share"
    -P "${CMAKE_SOURCE_DIR}/cmake/write_pages.cmake")

set(vram_share "${CMAKE_INSTALL_DATADIR}")
if(SKBUILD)
  set(vram_share "${SKBUILD_DATA_DIR}/share")
endif()
install(DIRECTORY "${CMAKE_BINARY_DIR}/share/man" "${CMAKE_BINARY_DIR}/share/bash-completion"
  "${CMAKE_BINARY_DIR}/share/zsh" "${CMAKE_BINARY_DIR}/share/fish" DESTINATION "${vram_share}" COMPONENT vram)
