# Installs the build tree to an empty prefix, moves it, and builds and runs a project that finds it there.
# README.md's line for a compiler alone does what it says there.
#   cmake -DBUILD=<build tree> -DSOURCE=<consumer> -DWORK=<scratch> -DGENERATOR=<CMake's> -DCXX=<compiler>
#         -DROOT=<of the sources> -DEIGEN=<Eigen's folder> -P install.cmake
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
if(engine)
  file(STRINGS "${ROOT}/README.md" line REGEX "^g\\+\\+ ")
  string(REGEX REPLACE "^g\\+\\+" "${CXX}" line "${line}")
  string(REPLACE "PREFIX" "${WORK}/prefix" line "${line}")
  string(REPLACE "/usr/include/eigen3" "${EIGEN}" line "${line}")
  file(WRITE "${WORK}/plain.sh" "cd '${ROOT}'\n${line} -o '${WORK}/plain' && '${WORK}/plain'\n")
  run(sh ${WORK}/plain.sh)
  if(NOT output MATCHES "B =\n0.0003844\n")
    message(FATAL_ERROR "examples/01_linearize.cc printed: ${output}")
  endif()
endif()
if(EXISTS "${WORK}/prefix/bin/costate")
  run(${WORK}/prefix/bin/costate --version)
endif()
