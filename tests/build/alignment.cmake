# A program for which Eigen allocates otherwise than for the library is told so when it is compiled, not by a crash.
#   cmake -DCXX=<compiler> -DINCLUDES=<folders> -DWORK=<scratch> [-DWIDE=<option for wider vectors>] -P alignment.cmake
file(MAKE_DIRECTORY "${WORK}")
file(WRITE "${WORK}/includes_eigen.cc" "#include <costate/costate.h>\nint main() {}\n")
list(TRANSFORM INCLUDES PREPEND -I)

function(compiles expected)
  execute_process(COMMAND ${CXX} -std=c++20 -fsyntax-only ${INCLUDES} ${ARGN} "${WORK}/includes_eigen.cc"
                  RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(expected AND NOT result EQUAL 0)
    message(FATAL_ERROR "with ${ARGN}:\n${output}")
  endif()
  if(NOT expected AND (result EQUAL 0 OR NOT output MATCHES "-DEIGEN_MAX_ALIGN_BYTES=16 -DEIGEN_MALLOC_ALREADY_ALIGNED=1"))
    message(FATAL_ERROR "with ${ARGN} it should be refused:\n${output}")
  endif()
endfunction()

set(alignment -DEIGEN_MAX_ALIGN_BYTES=16 -DEIGEN_MALLOC_ALREADY_ALIGNED=1)
compiles(TRUE ${alignment})
compiles(FALSE -DEIGEN_MAX_ALIGN_BYTES=32)
if(WIDE)
  compiles(FALSE ${WIDE})
  compiles(TRUE ${WIDE} ${alignment})
endif()
