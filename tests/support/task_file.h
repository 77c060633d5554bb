// Task files for tests: costs between <task> and </task> on a model of testdata.
#ifndef COSTATE_TESTS_SUPPORT_TASK_FILE_H_
#define COSTATE_TESTS_SUPPORT_TASK_FILE_H_

#include <costate/task.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

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

/// All task files below a folder, in alphabetical order.
inline std::vector<std::string> TaskFiles(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".xml") continue;
    std::ifstream file(entry.path());
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    if (text.find("<task ") != std::string::npos) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace costate::support

#endif  // COSTATE_TESTS_SUPPORT_TASK_FILE_H_
