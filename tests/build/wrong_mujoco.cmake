# Configuring against another MuJoCo stops with a sentence that names both versions and says why.
#   cmake -DSOURCE=<repository> -DWORK=<scratch> -DGENERATOR=<CMake's> -P wrong_mujoco.cmake
file(REMOVE_RECURSE "${WORK}")

function(expect_refusal folder text)
  execute_process(COMMAND ${CMAKE_COMMAND} -G ${GENERATOR} -S ${SOURCE} -B ${WORK}/build -DMUJOCO_DIR=${folder}
                  RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  string(REGEX REPLACE "[ \n]+" " " output "${output}")
  string(FIND "${output}" "${text}" position)
  if(result EQUAL 0 OR position EQUAL -1)
    message(FATAL_ERROR "expected a refusal with '${text}', got (${result}): ${output}")
  endif()
endfunction()

# another header
file(WRITE "${WORK}/old/include/mujoco/mujoco.h" "#define mjVERSION_HEADER 3003007\n")
file(WRITE "${WORK}/old/lib/libmujoco.so.3.3.7" "")
expect_refusal(${WORK}/old "has version number 3003007, not 4000001. Costate needs MuJoCo 4.0.1 exactly")

# the right header with another library
file(WRITE "${WORK}/mixed/include/mujoco/mujoco.h" "#define mjVERSION_HEADER 4000001\n")
file(WRITE "${WORK}/mixed/lib/libmujoco.so.4.0.0" "")
expect_refusal(${WORK}/mixed "is not libmujoco.so.4.0.1. Costate needs MuJoCo 4.0.1 exactly")

# no MuJoCo at all
file(MAKE_DIRECTORY "${WORK}/empty")
expect_refusal(${WORK}/empty "No MuJoCo in ${WORK}/empty")

# an installed package of another version
file(WRITE "${WORK}/package/lib/cmake/mujoco/mujocoConfig.cmake" "add_library(mujoco::mujoco INTERFACE IMPORTED)\n")
file(WRITE "${WORK}/package/lib/cmake/mujoco/mujocoConfigVersion.cmake"
     "set(PACKAGE_VERSION 3.3.7)\nset(PACKAGE_VERSION_COMPATIBLE TRUE)\n")
set(ENV{CMAKE_PREFIX_PATH} "${WORK}/package")
expect_refusal("" "is 3.3.7. Costate needs MuJoCo 4.0.1 exactly")
