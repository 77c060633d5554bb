// Tables of numbers in CSV files: references over time and controls to start from.
#ifndef COSTATE_OPTIMIZER_TASK_CSV_H_
#define COSTATE_OPTIMIZER_TASK_CSV_H_

#include <costate/types.h>
#include <mujoco/mujoco.h>

#include <functional>
#include <string>
#include <vector>

namespace costate {

/// A CSV file: commas, an optional header, '#' comments; an empty cell reads as NaN.
struct CsvTable {
  std::string path;
  std::vector<std::string> names;  ///< empty without a header; units behind them are cut off ("time [s]"), and …
  std::vector<std::string> converted{};  ///< … taken out of the numbers: "time from ms", "qpos[knee] from deg"
  std::vector<std::string> unknown{};    ///< … and those that are none: "shoulder (left)"
  MatrixXd values;                       ///< rows × columns
  std::vector<int> line;                 ///< of each row
  int header = 1;                        ///< line of the names

  /// Column of a name, or -1; "hip" will do for "ctrl[hip]".
  int Column(const std::string& name) const;

  /// Column of each entry of a state, or -1: positions also without "qpos[…]", the others by their full name alone.
  std::vector<int> StateColumns(const mjModel* model) const;

  /// A column that none of `names` takes and whose name is near to that of names[i], which has none: misspelled, most
  /// likely. "" without one.
  std::string Misspelled(const std::vector<std::string>& names, const std::vector<int>& columns, std::size_t i) const;

  /// The first such column, its place and what was meant, in a sentence; "" without one. Only a position's name may
  /// lack its "qpos[…]".
  std::string MisspelledText(const std::vector<std::string>& names, const std::vector<int>& columns) const;
};

/// @param path  a file, or a saved run's folder, whose trajectory.csv is taken.
/// @throws Error{kFile} if it cannot be read; Error{kParse} with the line of a cell that is no number, or of a row with
///         another number of columns.
CsvTable ReadTable(const std::string& path);

/// Named or counted columns of a table over time, time counted from the first row.
struct TimeSeries {
  VectorXd time;    ///< [s], increasing; empty when the file has no time column
  MatrixXd values;  ///< one column a row of the file
};

/// Picks `names` by header, else by position: the named columns alone, or behind a first column of times. A header that
/// has none of them is an error where they are entries of qpos, qvel, act or ctrl: it means others, but for names that
/// say the order alone, such as ctrl0, ctrl1.
/// Rows at the end whose cells are all empty are dropped (the last knot of a run has no control).
/// @throws Error{kParse} if columns are missing, a cell is empty or times do not increase.
TimeSeries ReadTimeSeries(const std::string& path, const std::vector<std::string>& names, bool needs_time);

/// The same of a model's controls. @throws Error{kParse} also where a header has columns that are neither controls
/// nor beside them in a saved run; in a recorded motion, which has columns of state or sensors, others are passed over.
TimeSeries ReadControls(const std::string& path, const mjModel* model);

/// What N knots leave out of a series: "12 rows, one a control interval, and there are 10"; "" where nothing is.
std::string LeftOut(const TimeSeries& series, int N, double knot_time);

/// What lies between two columns, the second of which begins at share 1.
using Interpolation = std::function<VectorXd(ConstVectorRef before, ConstVectorRef after, double share)>;

/// One column a knot out of a time series, the ends held; without times each row is one knot.
/// @param between  empty: in a straight line.
MatrixXd Sample(const TimeSeries& series, int N, double knot_time, const Interpolation& between = {});

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_TASK_CSV_H_
