# A program may include any public header first, or alone: each is compiled as C++20 by itself, the C interface as C99, too.
#   cmake -DCXX=<compiler> -DCC=<C compiler> -DROOT=<folder of costate/> -DINCLUDES=<folders> -P headers.cmake
list(TRANSFORM INCLUDES PREPEND -I)
file(GLOB headers "${ROOT}/costate/*.h")
if(NOT headers)
  message(FATAL_ERROR "no headers in ${ROOT}/costate")
endif()

function(compiles header)
  execute_process(COMMAND ${ARGN} -fsyntax-only ${INCLUDES} "${header}"
                  RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    message(SEND_ERROR "${header}:\n${output}")
  endif()
endfunction()

foreach(header ${headers})
  compiles(${header} ${CXX} -std=c++20 -x c++ -DEIGEN_MAX_ALIGN_BYTES=16 -DEIGEN_MALLOC_ALREADY_ALIGNED=1)
endforeach()
compiles(${ROOT}/costate/costate_c.h ${CC} -std=c99 -pedantic -x c)
