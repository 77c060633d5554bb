// Tables of numbers as CSV (RFC 4180) that come back bit for bit: 17 significant digits, one header row.
#ifndef COSTATE_ROLLOUT_CSV_H_
#define COSTATE_ROLLOUT_CSV_H_

#include <costate/types.h>

#include <string>
#include <vector>

#include "rollout/run_folder.h"

namespace costate {

/// Writes a table row by row.
class CsvWriter {
 public:
  CsvWriter(FileWriter* file, const std::vector<std::string>& header);
  void Cell(double value);
  void Cell(int value);
  void Cells(ConstVectorRef values);
  void Empty(int count = 1);
  void EndRow();

 private:
  void Separate();

  FileWriter* file_;
  bool first_ = true;
};

/// A cell as it stands in a file: in quotes where it has a comma, a quote or a line's end.
std::string QuotedCell(const std::string& cell);

/// The header row as it stands in the file: cells with a comma or quote are quoted.
std::string CsvHeader(const std::vector<std::string>& header);

/// Reads a table whose header is known. An empty cell is NaN: its column says what that means.
///
/// @param name  stands in messages.
/// @return      one row of the file a row.
/// @throws Error{kFile}: "trajectory.csv, line 12: 'x' is not a number", "… has 5 cells, its header has 7".
MatrixXd ReadCsv(const std::string& name, const std::string& text, const std::vector<std::string>& header);

}  // namespace costate

#endif  // COSTATE_ROLLOUT_CSV_H_
