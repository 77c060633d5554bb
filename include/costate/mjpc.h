// Tasks of MuJoCo MPC: its XML says norms, weights and horizon; what a residual measures stands in its C++ code.
#ifndef COSTATE_MJPC_H_
#define COSTATE_MJPC_H_

#include <costate/task.h>

#include <string>
#include <vector>

namespace costate {

struct MjpcImport {
  std::string text;                  ///< the task file; empty while something is missing
  std::vector<std::string> notes;    ///< what was not taken over, or means something else here; one sentence each
  std::vector<std::string> missing;  ///< residuals that nobody has said the meaning of: name, size, norm, weight, line
  std::string form;                  ///< a file of residuals to fill in, while something is missing
};

/// Reads a task of MuJoCo MPC (`<sensor><user name="…" dim="…" user="norm weight low high params…"/>`, `<custom>` with
/// agent_… and residual_…) and writes it as a Costate task with the same mean cost over the same knots.
///
/// @param path       its task XML; <include>s are followed. The task's model is that file itself.
/// @param residuals  a file <residuals> with <measure>, <let> and <residual name="…" …/>: what each residual measures,
///                   in the words of a <cost>; "" for none. Its parameters (residual_Height Goal) are known as
///                   Height_Goal.
/// @param folder     where the task file will lie: its model's path is relative to it.
/// @throws Error{kFile}, Error{kParse}: "task.xml:20: <user name='Height'>: …".
MjpcImport ImportMjpcTask(const std::string& path, const std::string& residuals, const std::string& folder);

/// Compares the size of every residual of a task that was made of it with its <user> sensor's dim.
/// @param path  as above.
/// @throws Error{kParse}: "task.xml:20: <user name='Height'>: dim is 1, what 'r.xml' says it measures has 2
/// components".
void CheckMjpcImport(const std::string& path, const Task& task);

}  // namespace costate

#endif  // COSTATE_MJPC_H_
