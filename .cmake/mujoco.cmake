# Provides the imported target mujoco::mujoco, version 4.0.1 exactly, from the first of:
#   -DMUJOCO_DIR=<folder of a MuJoCo release or of an unpacked wheel>, an installed CMake package, the official wheel.
# Sets COSTATE_MUJOCO_PACKAGE (it is an installed package), else COSTATE_MUJOCO_LIBRARY and COSTATE_MUJOCO_INCLUDE.
set(COSTATE_MUJOCO_PACKAGE OFF)
set(COSTATE_MUJOCO_VERSION 4.0.1)
set(COSTATE_MUJOCO_WHY "Costate needs MuJoCo ${COSTATE_MUJOCO_VERSION} exactly: its derivatives mirror that release's \
pipeline, and 4.0.0 has a wrong sparse Newton factorisation")

# wheel file, hash and pip platform for each processor
set(_wheel_x86_64 mujoco_core-4.0.1-cp312-cp312-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl)
set(_sha256_x86_64 efbfb6e8f2bd63c5f19473f8093f01696937ef453d647b3c7a92620f5873b845)
set(_wheel_aarch64 mujoco_core-4.0.1-cp312-cp312-manylinux_2_27_aarch64.manylinux_2_28_aarch64.whl)
set(_sha256_aarch64 a401eaea5295a29d50c6fdfdb8df8d73c525ab2153751f91c36bd6ccdff95822)

# refuses a header of another version
function(costate_check_mujoco_header include_dir)
  file(STRINGS "${include_dir}/mujoco/mujoco.h" line REGEX "define mjVERSION_HEADER")
  string(REGEX MATCH "[0-9]+" number "${line}")
  if(NOT number EQUAL 4000001)
    message(FATAL_ERROR "MuJoCo in ${include_dir} has version number ${number}, not 4000001. ${COSTATE_MUJOCO_WHY}.")
  endif()
endfunction()

# imports the library and headers found under a folder
function(costate_import_mujoco root)
  find_path(COSTATE_MUJOCO_INCLUDE mujoco/mujoco.h PATHS "${root}/include" "${root}/mujoco/include" NO_DEFAULT_PATH NO_CACHE)
  file(GLOB libraries "${root}/lib/libmujoco.so*" "${root}/libmujoco.so*" "${root}/mujoco/libmujoco.so*")
  if(NOT COSTATE_MUJOCO_INCLUDE OR NOT libraries)
    message(FATAL_ERROR "No MuJoCo in ${root}: expected include/mujoco/mujoco.h and lib/libmujoco.so.")
  endif()
  costate_check_mujoco_header("${COSTATE_MUJOCO_INCLUDE}")
  list(GET libraries 0 library)
  file(REAL_PATH "${library}" library)
  if(NOT library MATCHES "libmujoco\\.so\\.4\\.0\\.1$")
    message(FATAL_ERROR "The library ${library} is not libmujoco.so.4.0.1. ${COSTATE_MUJOCO_WHY}.")
  endif()
  add_library(mujoco::mujoco SHARED IMPORTED GLOBAL)
  set_target_properties(mujoco::mujoco PROPERTIES IMPORTED_LOCATION "${library}" IMPORTED_SONAME libmujoco.so.4.0.1
                        INTERFACE_INCLUDE_DIRECTORIES "${COSTATE_MUJOCO_INCLUDE}")
  set(COSTATE_MUJOCO_LIBRARY "${library}" PARENT_SCOPE)
  set(COSTATE_MUJOCO_INCLUDE "${COSTATE_MUJOCO_INCLUDE}" PARENT_SCOPE)
  message(STATUS "MuJoCo ${COSTATE_MUJOCO_VERSION}: ${library}")
endfunction()

if(MUJOCO_DIR)
  costate_import_mujoco("${MUJOCO_DIR}")
  return()
endif()

find_package(mujoco QUIET CONFIG)
if(mujoco_FOUND)
  if(NOT mujoco_VERSION VERSION_EQUAL COSTATE_MUJOCO_VERSION)
    message(FATAL_ERROR "The installed MuJoCo package (${mujoco_DIR}) is ${mujoco_VERSION}. ${COSTATE_MUJOCO_WHY}. "
            "Pass -DMUJOCO_DIR=<4.0.1>, or -DCMAKE_DISABLE_FIND_PACKAGE_mujoco=ON to fetch the official wheel.")
  endif()
  set(COSTATE_MUJOCO_PACKAGE ON)
  message(STATUS "MuJoCo ${mujoco_VERSION}: ${mujoco_DIR}")
  return()
endif()

# the official wheel, once, under the build folder
set(_processor ${CMAKE_SYSTEM_PROCESSOR})
if(NOT DEFINED _wheel_${_processor})
  message(FATAL_ERROR "There is no MuJoCo wheel for processor '${_processor}' here; pass -DMUJOCO_DIR=<MuJoCo 4.0.1>.")
endif()
set(_root "${PROJECT_BINARY_DIR}/mujoco-${COSTATE_MUJOCO_VERSION}")
set(_file "${_root}/${_wheel_${_processor}}")
if(NOT EXISTS "${_root}/complete")
  if(NOT EXISTS "${_file}")
    find_program(COSTATE_PYTHON3 NAMES python3)
    if(NOT COSTATE_PYTHON3)
      message(FATAL_ERROR "python3 with pip is needed to fetch MuJoCo. On Debian: apt-get install python3-pip; or pass "
              "-DMUJOCO_DIR=<MuJoCo ${COSTATE_MUJOCO_VERSION}>.")
    endif()
    message(STATUS "Fetching mujoco-core ${COSTATE_MUJOCO_VERSION} with pip …")
    execute_process(COMMAND ${COSTATE_PYTHON3} -m pip download --quiet --disable-pip-version-check --no-deps
                            --only-binary=:all: --implementation cp --python-version 3.12
                            --platform manylinux_2_28_${_processor} --dest "${_root}"
                            mujoco-core==${COSTATE_MUJOCO_VERSION}
                    RESULT_VARIABLE _result ERROR_VARIABLE _error)
    if(NOT _result EQUAL 0 OR NOT EXISTS "${_file}")
      message(FATAL_ERROR "pip could not fetch mujoco-core==${COSTATE_MUJOCO_VERSION} (Debian package: python3-pip); "
              "pass -DMUJOCO_DIR=<MuJoCo 4.0.1> instead.\n${_error}")
    endif()
  endif()
  file(SHA256 "${_file}" _hash)
  if(NOT _hash STREQUAL _sha256_${_processor})
    message(FATAL_ERROR "${_file} has SHA-256 ${_hash}, expected ${_sha256_${_processor}}. Delete it and try again.")
  endif()
  file(ARCHIVE_EXTRACT INPUT "${_file}" DESTINATION "${_root}")
  file(TOUCH "${_root}/complete")
endif()
costate_import_mujoco("${_root}")
