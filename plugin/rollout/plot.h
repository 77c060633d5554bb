// Pictures of a run's tables by gnuplot.
#ifndef COSTATE_ROLLOUT_PLOT_H_
#define COSTATE_ROLLOUT_PLOT_H_

#include <filesystem>
#include <string>
#include <vector>

namespace costate {

/// Crosses on a line at the rows where another column is not 0.
struct PlotMarks {
  int column = 0, where = 0;  ///< counted from 0
  std::string label;
};

/// Columns of one table drawn over its first column, or over `x`, as one PNG.
struct Plot {
  std::string file;   ///< "controls.png"
  std::string table;  ///< "trajectory.csv", with one header row
  std::string title, x_label, y_label;
  std::vector<int> columns{};         ///< counted from 0
  std::vector<std::string> labels{};  ///< one a column
  bool logarithmic = false;           ///< |y| on a logarithmic axis
  bool logarithmic_x = false;         ///< the abscissa too
  int every = 1;                      ///< draw each such row only
  int x = 0;                          ///< column of the abscissa
  std::vector<PlotMarks> marks{};     ///< drawn at every row
};

/// The script that draws all plots with `gnuplot FILE`, in the folder of the tables.
std::string PlotScript(const std::vector<Plot>& plots);

/// Runs gnuplot on a script inside `folder`. @return "" or why there are no or not all pictures.
std::string RunGnuplot(const std::filesystem::path& folder, const std::string& script);

}  // namespace costate

#endif  // COSTATE_ROLLOUT_PLOT_H_
