// Task files for tests: costs between <task> and </task> on a model of testdata.
#ifndef COSTATE_TESTS_SUPPORT_TASK_FILE_H_
#define COSTATE_TESTS_SUPPORT_TASK_FILE_H_

#include <costate/task.h>

#include <string>

#include "support/temporary_folder.h"

namespace costate::support {

/// Text of a task on testdata/task_zoo.xml: its first line is <task …>, then `elements`.
inline std::string ZooTask(const std::string& elements, const std::string& attributes = "horizon=\"0.1\"") {
  return "<task model=\"" COSTATE_TESTDATA "/task_zoo.xml\" " + attributes + ">\n" + elements + "\n</task>\n";
}

/// Loads such a task from a file "zoo.task.xml".
inline Task LoadZooTask(const std::string& elements, const std::string& attributes = "horizon=\"0.1\"") {
  const TemporaryFolder folder;
  return LoadTask(folder.Write("zoo.task.xml", ZooTask(elements, attributes)));
}

}  // namespace costate::support

#endif  // COSTATE_TESTS_SUPPORT_TASK_FILE_H_
