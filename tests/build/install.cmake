# Installs the build tree to an empty prefix, moves it, and builds and runs a project that finds it there.
#   cmake -DBUILD=<build tree> -DSOURCE=<consumer> -DWORK=<scratch> -DGENERATOR=<CMake's> -DCXX=<compiler> -P install.cmake
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE "${WORK}")
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/first)

# nothing in the installed tree may name the place where it was made
file(RENAME "${WORK}/first" "${WORK}/prefix")
run(${CMAKE_COMMAND} -G ${GENERATOR} -S ${SOURCE} -B ${WORK}/build -DCMAKE_PREFIX_PATH=${WORK}/prefix
    -DCMAKE_CXX_COMPILER=${CXX})
run(${CMAKE_COMMAND} --build ${WORK}/build)
run(${WORK}/build/consumer)

# an engine that came along is found by -lmujoco, too
file(GLOB_RECURSE engine "${WORK}/prefix/libmujoco.so.*")
foreach(library ${engine})
  get_filename_component(folder "${library}" DIRECTORY)
  get_filename_component(name "${library}" NAME)
  if(NOT IS_SYMLINK "${folder}/libmujoco.so")
    message(FATAL_ERROR "there is no link libmujoco.so beside ${library}")
  endif()
  file(READ_SYMLINK "${folder}/libmujoco.so" target)
  if(NOT target STREQUAL name)
    message(FATAL_ERROR "libmujoco.so is a link to ${target}, not to ${name}")
  endif()
endforeach()

# 50 steps of 2 ms: z = −g h² (1 + 2 + … + 50)
if(NOT output STREQUAL "ok -0.0500\n")
  message(FATAL_ERROR "the consumer printed: ${output}")
endif()
if(EXISTS "${WORK}/prefix/bin/costate")
  run(${WORK}/prefix/bin/costate --version)
endif()
