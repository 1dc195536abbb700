# What `vram help WORD` knows of other tools, as a string in the program.
set(vram_habits "${CMAKE_CURRENT_SOURCE_DIR}/cli/habits.toml")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${vram_habits}")
file(READ "${vram_habits}" VRAM_HABITS)
configure_file("${CMAKE_CURRENT_SOURCE_DIR}/cli/habits_text.cpp.in" "${CMAKE_CURRENT_BINARY_DIR}/cli_habits_text.cpp" @ONLY)
target_sources(vram_cli PRIVATE "${CMAKE_CURRENT_BINARY_DIR}/cli_habits_text.cpp")
