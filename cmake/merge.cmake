# Unity builds, which shorten a build: most of a source's compile time goes to headers that all sources include. With
# -DVRAM_UNITY=OFF (`make build-strict`) each source is checked by itself, which proves that it includes what it uses and no
# more than its module may.

# vram_merge(<target> <source>…): compiles up to eight sources of one folder as one. Names in unnamed namespaces must
# therefore be unique in their folder.
function(vram_merge target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${VRAM_UNITY} UNITY_BUILD_MODE GROUP)
  set(previous "")
  foreach(source IN LISTS ARGN)
    cmake_path(GET source PARENT_PATH folder)
    if(NOT folder STREQUAL previous)
      set(previous "${folder}")
      set(count 0)
      cmake_path(RELATIVE_PATH folder BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}" OUTPUT_VARIABLE group)
      string(MAKE_C_IDENTIFIER "${group}" group)
    endif()
    math(EXPR batch "${count} / 8")
    math(EXPR count "${count} + 1")
    set_property(SOURCE "${source}" PROPERTY UNITY_GROUP "${group}_${batch}")
  endforeach()
endfunction()
