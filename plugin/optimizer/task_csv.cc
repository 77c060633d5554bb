#include "optimizer/task_csv.h"

#include <costate/error.h>
#include <costate/model.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <sstream>

#include "core/extremes.h"
#include "core/number.h"
#include "optimizer/task_xml.h"

namespace costate {
namespace {

constexpr double kSameTime = 1e-6;  // share of a knot below which two times are one

std::string TrimCell(std::string cell) {
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!cell.empty() && blank(cell.back())) cell.pop_back();
  while (!cell.empty() && blank(cell.front())) cell.erase(0, 1);
  if (cell.size() >= 2 && cell.front() == '"' && cell.back() == '"') cell = cell.substr(1, cell.size() - 2);
  return cell;
}

std::vector<std::string> SplitCells(const std::string& line) {
  std::vector<std::string> cells;
  std::string cell;
  bool quoted = false;
  for (char c : line) {
    if (c == '"') quoted = !quoted;
    if (c == ',' && !quoted) {
      cells.push_back(TrimCell(cell));
      cell.clear();
    } else {
      cell += c;
    }
  }
  cells.push_back(TrimCell(cell));
  return cells;
}

// "time [s]" and "time (s)" are called time; "qpos[knee]" keeps its bracket
std::string WithoutUnit(const std::string& name) {
  const std::size_t unit = std::min(name.find(" ["), name.find(" ("));
  return unit == std::string::npos ? name : TrimCell(name.substr(0, unit));
}

bool IsHeader(const std::vector<std::string>& cells) {
  double number;
  return std::none_of(cells.begin(), cells.end(), [&](const std::string& cell) { return ParseNumber(cell, &number); });
}

[[noreturn]] void Fail(const CsvTable& table, int line, const std::string& message) {
  throw Error(ErrorCode::kParse, fmt::format("{}:{}: {}", table.path, line, message));
}

// a saved run's folder stands for its trajectory
std::istringstream Open(CsvTable* table) {
  std::error_code ignored;
  if (std::filesystem::is_directory(table->path, ignored)) {
    table->path = (std::filesystem::path(table->path) / "trajectory.csv").string();
  }
  return std::istringstream(ReadTextFile(table->path, "file"));
}

}  // namespace

int CsvTable::Column(const std::string& name) const {
  auto found = std::find(names.begin(), names.end(), name);
  const std::size_t open = name.find('['), close = name.rfind(']');
  if (found == names.end() && open != std::string::npos && close == name.size() - 1) {
    found = std::find(names.begin(), names.end(), name.substr(open + 1, close - open - 1));
  }
  return found == names.end() ? -1 : static_cast<int>(found - names.begin());
}

std::vector<int> CsvTable::StateColumns(const mjModel* model) const {
  std::vector<int> columns;
  for (const std::string& name : StateNames(model)) {
    const auto found = std::find(names.begin(), names.end(), name);
    const int exact = found == names.end() ? -1 : static_cast<int>(found - names.begin());
    columns.push_back(exact < 0 && name.rfind("qpos[", 0) == 0 ? Column(name) : exact);
  }
  return columns;
}

CsvTable ReadTable(const std::string& path) {
  CsvTable table;
  table.path = path;
  std::istringstream file = Open(&table);
  std::vector<std::vector<double>> rows;
  std::string text;
  std::size_t columns = 0;
  for (int line = 1; std::getline(file, text); ++line) {
    if (TrimCell(text).empty() || text[0] == '#') continue;
    const std::vector<std::string> cells = SplitCells(text);
    if (columns == 0) {
      columns = cells.size();
      if (IsHeader(cells)) {
        for (const std::string& cell : cells) table.names.push_back(WithoutUnit(cell));
        continue;
      }
    }
    if (cells.size() != columns) {
      Fail(table, line,
           fmt::format("{}, the first row has {}", Count(static_cast<long>(cells.size()), "column"), columns));
    }
    std::vector<double>& row = rows.emplace_back(columns, kNan);
    for (std::size_t i = 0; i < columns; ++i) {
      if (cells[i].empty() || cells[i] == "nan") continue;
      if (!ParseNumber(cells[i], &row[i])) {
        Fail(table, line, fmt::format("'{}' in column {} is not a finite number", cells[i], i + 1));
      }
    }
    table.line.push_back(line);
  }
  if (rows.empty()) Fail(table, 1, "there are no rows of numbers between commas");
  table.values.resize(static_cast<Eigen::Index>(rows.size()), static_cast<Eigen::Index>(columns));
  for (Eigen::Index i = 0; i < table.values.rows(); ++i) {
    table.values.row(i) = Eigen::Map<const VectorXd>(rows[static_cast<std::size_t>(i)].data(), table.values.cols());
  }
  return table;
}

TimeSeries ReadTimeSeries(const std::string& path, const std::vector<std::string>& names, bool needs_time) {
  const CsvTable table = ReadTable(path);
  const int n = static_cast<int>(names.size()), columns = static_cast<int>(table.values.cols());
  int time = table.Column("time");

  // by header if it has any of the names, else by position
  std::vector<int> column(names.size());
  std::vector<std::string> missing;
  for (int i = 0; i < n; ++i) {
    column[i] = table.Column(names[i]);
    if (column[i] < 0) missing.push_back(names[i]);
  }
  if (!missing.empty() && static_cast<int>(missing.size()) < n) {
    Fail(table, 1, fmt::format("the header has no column '{}'", missing[0]));
  }
  if (!missing.empty()) {
    if (time < 0 && columns == n + 1) time = 0;
    if (columns != n + (time >= 0 ? 1 : 0) || time > 0 || (time < 0 && needs_time)) {
      Fail(table, table.line[0],
           fmt::format("{}, expected {}{} ({})", Count(columns, "column"), needs_time ? "the time and " : "",
                       Count(n, "number"), JoinWords(names)));
    }
    for (int i = 0; i < n; ++i) column[i] = i + (time >= 0 ? 1 : 0);
  }
  if (needs_time && time < 0) Fail(table, 1, "there is no column 'time'");

  // rows, but for empty ones at the end
  Eigen::Index rows = table.values.rows();
  auto empty = [&](Eigen::Index row) {
    return std::all_of(column.begin(), column.end(), [&](int i) { return std::isnan(table.values(row, i)); });
  };
  while (rows > 0 && empty(rows - 1)) --rows;
  if (rows == 0) Fail(table, table.line[0], "all cells are empty");
  TimeSeries series;
  series.values.resize(n, rows);
  if (time >= 0) series.time = table.values.col(time).head(rows).array() - table.values(0, time);
  for (Eigen::Index row = 0; row < rows; ++row) {
    const int line = table.line[static_cast<std::size_t>(row)];
    for (int i = 0; i < n; ++i) {
      series.values(i, row) = table.values(row, column[i]);
      if (std::isnan(series.values(i, row))) {
        Fail(table, line, fmt::format("the cell in column {} is empty or nan", column[i] + 1));
      }
    }
    if (time < 0) continue;
    if (!std::isfinite(series.time[row])) Fail(table, line, "the time is empty");
    if (row > 0 && series.time[row] <= series.time[row - 1]) Fail(table, line, "times do not increase");
  }
  return series;
}

MatrixXd Sample(const TimeSeries& series, int N, double knot_time) {
  MatrixXd U(series.values.rows(), N);
  const Eigen::Index rows = series.values.cols();
  Eigen::Index k = 0;
  for (int t = 0; t < N; ++t) {
    const double time = t * knot_time;
    if (series.time.size() == 0) {
      U.col(t) = series.values.col(std::min<Eigen::Index>(t, rows - 1));
      continue;
    }
    while (k + 1 < rows && series.time[k + 1] <= time + kSameTime * knot_time) ++k;
    if (k + 1 == rows || time <= series.time[k] + kSameTime * knot_time) {
      U.col(t) = series.values.col(k);
    } else {
      const double s = (time - series.time[k]) / (series.time[k + 1] - series.time[k]);
      U.col(t) = (1 - s) * series.values.col(k) + s * series.values.col(k + 1);
    }
  }
  return U;
}

}  // namespace costate
