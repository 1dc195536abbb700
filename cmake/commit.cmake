# What `vram --version` says besides the version: the commit and the build type. They are in one small source file that is
# written at each build, by this file run as a script, and compiled only if its text has changed: a new commit compiles that
# file and links the program. Nothing else of the program may depend on the commit.
if(NOT CMAKE_SCRIPT_MODE_FILE)
  set(vram_build_type "${CMAKE_BUILD_TYPE}")
  if(VRAM_SANITIZE)
    string(APPEND vram_build_type ", sanitizers ${VRAM_SANITIZE}")
  endif()
  set(vram_build "${CMAKE_CURRENT_BINARY_DIR}/build.cpp")
  add_custom_target(vram_commit
    COMMAND "${CMAKE_COMMAND}" "-DSOURCE=${CMAKE_SOURCE_DIR}" "-DTEMPLATE=${CMAKE_CURRENT_SOURCE_DIR}/cli/build.cpp.in"
      "-DBUILD_TYPE=${vram_build_type}" "-DTARGET=${vram_build}" -P "${CMAKE_CURRENT_LIST_FILE}"
    BYPRODUCTS "${vram_build}"
    COMMENT "Commit for vram --version"
    VERBATIM)
  add_dependencies(vram vram_commit)
  target_sources(vram PRIVATE "${vram_build}")
  return()
endif()

# `git archive`, and so the archives of a release's sources, put the commit in here (.gitattributes).
set(archived "$Format:%h$")

# Only of a repository whose root this folder is: the sources may lie unpacked inside somebody else's. Whose the folder is
# does not matter (safe.directory): root builds in users' clones, too.
function(ask_git result)
  find_program(GIT git)
  set(${result} "" PARENT_SCOPE)
  if(NOT GIT OR NOT EXISTS "${SOURCE}/.git")
    return()
  endif()
  set(git "${GIT}" --no-optional-locks -c "safe.directory=${SOURCE}" -C "${SOURCE}")
  execute_process(COMMAND ${git} describe --always --dirty --abbrev=7 "--exclude=*"
    OUTPUT_VARIABLE described OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(failed)
    return()
  endif()
  # --dirty does not see files that git does not track yet, and a new source file is compiled all the same
  # (tools/build_backend.py has the same list).
  if(NOT described MATCHES "-dirty$")
    execute_process(COMMAND ${git} status --porcelain --untracked-files=normal
      -- src include cmake python demo tools CMakeLists.txt
      OUTPUT_VARIABLE changed ERROR_QUIET)
    if(changed)
      string(APPEND described "-dirty")
    endif()
  endif()
  set(${result} "${described}" PARENT_SCOPE)
endfunction()

ask_git(commit)
# A source distribution has it in a file (tools/build_backend.py).
if(NOT commit AND EXISTS "${SOURCE}/COMMIT")
  file(STRINGS "${SOURCE}/COMMIT" commit LIMIT_COUNT 1)
endif()
if(NOT commit AND NOT archived MATCHES "Format")
  set(commit "${archived}")
endif()
if(commit MATCHES "^[0-9a-f]+(-dirty)?$")
  set(COMMIT "commit ${commit}")
else()
  set(COMMIT "unknown commit")
endif()
configure_file("${TEMPLATE}" "${TARGET}" @ONLY)  # touches the file only if its text changes
