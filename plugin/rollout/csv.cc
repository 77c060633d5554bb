#include "rollout/csv.h"

#include <costate/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "core/extremes.h"
#include "core/number.h"

namespace costate {

std::string QuotedCell(const std::string& cell) {
  if (cell.find_first_of(",\"\r\n") == std::string::npos) return cell;
  std::string quoted = "\"";
  for (char c : cell) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

namespace {

[[noreturn]] void Damaged(const std::string& name, int line, const std::string& what) {
  throw Error(ErrorCode::kFile, fmt::format("{}, line {}: {}", name, line, what));
}

double ParseCell(const std::string& name, int line, std::string_view cell) {
  if (cell.empty()) return kNan;
  double value = 0;
  // a number too small for a double is read as the nearest one by nobody: the writer never makes it
  if (LeadingNumber(cell, &value) != cell.size()) {
    Damaged(name, line, fmt::format("'{}' is not a number", cell.substr(0, 40)));
  }
  return value;
}

// one row of `columns` cells
void ParseRow(const std::string& name, int line, std::string_view row, double* values, Eigen::Index columns) {
  for (Eigen::Index j = 0; j < columns; ++j) {
    const std::size_t end = row.find(',');
    if ((end == std::string_view::npos) != (j + 1 == columns)) {
      const auto cells = std::count(row.begin(), row.end(), ',') + 1 + j;
      Damaged(name, line, fmt::format("the row has {} cells, the header has {}", cells, columns));
    }
    values[j] = ParseCell(name, line, row.substr(0, end));
    if (end != std::string_view::npos) row.remove_prefix(end + 1);
  }
}

}  // namespace

std::string CsvHeader(const std::vector<std::string>& header) {
  std::string line;
  for (const std::string& cell : header) line += (line.empty() ? "" : ",") + QuotedCell(cell);
  return line;
}

CsvWriter::CsvWriter(FileWriter* file, const std::vector<std::string>& header) : file_(file) {
  file_->Write(CsvHeader(header) + "\n");
}

void CsvWriter::Separate() {
  if (!first_) file_->Write(",");
  first_ = false;
}

void CsvWriter::Cell(double value) {
  Separate();
  char digits[40];
  const auto end = fmt::format_to_n(digits, sizeof(digits), "{:.17g}", value).out;
  file_->Write({digits, static_cast<std::size_t>(end - digits)});
}

void CsvWriter::Cell(int value) {
  Separate();
  file_->Write(std::to_string(value));
}

void CsvWriter::Cells(ConstVectorRef values) {
  for (Eigen::Index i = 0; i < values.size(); ++i) Cell(values[i]);
}

void CsvWriter::Empty(int count) {
  for (int i = 0; i < count; ++i) Separate();
}

void CsvWriter::EndRow() {
  file_->Write("\n");
  first_ = true;
}

MatrixXd ReadCsv(const std::string& name, const std::string& text, const std::vector<std::string>& header) {
  const std::string expected = CsvHeader(header) + "\n";
  if (!text.starts_with(expected)) Damaged(name, 1, "the header is not that of the model in the run");
  if (text.back() != '\n') Damaged(name, 1, "the last line is cut off");

  // count, then parse
  std::string_view rest = std::string_view(text).substr(expected.size());
  const Eigen::Index rows = std::count(rest.begin(), rest.end(), '\n');
  const Eigen::Index columns = static_cast<Eigen::Index>(header.size());
  Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> values(rows, columns);
  for (Eigen::Index i = 0; i < rows; ++i) {
    const std::size_t end = rest.find('\n');
    ParseRow(name, static_cast<int>(i) + 2, rest.substr(0, end), values.data() + i * columns, columns);
    rest.remove_prefix(end + 1);
  }
  return values;
}

}  // namespace costate
