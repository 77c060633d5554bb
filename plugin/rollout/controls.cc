// Controls from a CSV that a person, a spreadsheet or another program wrote.
#include <costate/record.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <string_view>

#include "rollout/run_folder.h"

namespace costate {
namespace {

using Cells = std::vector<std::string>;

std::string Trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  return first == std::string_view::npos ? "" : std::string(text.substr(first, text.find_last_not_of(" \t\r") - first + 1));
}

// splits one line; a quoted cell may hold commas and doubled quotes
Cells Split(std::string_view line) {
  Cells cells(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"') {
      cells.back() += line[++i];
    } else if (line[i] == '"') {
      quoted = !quoted;
    } else if (line[i] == ',' && !quoted) {
      cells.emplace_back();
    } else {
      cells.back() += line[i];
    }
  }
  for (std::string& cell : cells) cell = Trimmed(cell);
  return cells;
}

bool ToNumber(const std::string& cell, double* value) {
  const char* first = cell.data() + (cell.starts_with('+') ? 1 : 0);
  const auto [end, error] = std::from_chars(first, cell.data() + cell.size(), *value);
  return error == std::errc() && end == cell.data() + cell.size();
}

// "ctrl[hip] (ctrl)" → "ctrl[hip]"
std::string WithoutUnit(const std::string& name) {
  const std::size_t unit = name.rfind(" (");
  return unit != std::string::npos && name.ends_with(')') ? name.substr(0, unit) : name;
}

// column of each control; by ctrl[NAME] or by NAME
std::vector<std::size_t> ControlColumns(const mjModel* model, const std::string& path, const Cells& header) {
  Cells known;
  for (const std::string& cell : header) known.push_back(WithoutUnit(cell));
  std::vector<std::size_t> columns;
  for (const std::string& name : ControlNames(model)) {
    const std::string inner = name.substr(5, name.rfind(']') - 5);  // within "ctrl[…]"
    auto found = std::find(known.begin(), known.end(), name);
    if (found == known.end()) found = std::find(known.begin(), known.end(), inner);
    if (found == known.end()) {
      const std::string nearest = NearestName(inner, known);
      throw Error(ErrorCode::kParse, fmt::format("{}:1: no column '{}' or '{}' for model '{}'{}", path, name, inner,
                                                 ModelName(model),
                                                 nearest.empty() ? "" : ", did you mean '" + nearest + "'?"));
    }
    columns.push_back(static_cast<std::size_t>(found - known.begin()));
  }
  return columns;
}

// one row to u; false when it has no control at all
bool ParseControls(const std::string& path, int line, const Cells& cells, const std::vector<std::size_t>& columns,
                   const Cells& names, VectorXd* u) {
  bool empty = true;
  for (std::size_t column : columns) empty = empty && (column >= cells.size() || cells[column].empty());
  if (empty && !columns.empty()) return false;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const std::string cell = columns[i] < cells.size() ? cells[columns[i]] : "";
    double& value = (*u)[static_cast<Eigen::Index>(i)];
    if (!ToNumber(cell, &value) || !std::isfinite(value)) {
      throw Error(ErrorCode::kParse, fmt::format("{}:{}: {} is '{}', expected a finite number", path, line, names[i], cell));
    }
  }
  return true;
}

}  // namespace

MatrixXd ReadControls(const mjModel* model, const std::string& path) {
  std::string text = ReadWholeFile(path, "'" + path + "'");
  if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);  // spreadsheets write it
  const Cells names = ControlNames(model);
  std::vector<std::size_t> columns;
  std::vector<VectorXd> rows;
  VectorXd u(static_cast<Eigen::Index>(names.size()));
  bool ended = false;
  int line = 0;
  for (std::size_t at = 0; at < text.size(); ++line) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const Cells cells = Split(std::string_view(text).substr(at, end - at));
    at = end + 1;

    // the first line: names, or numbers in order
    double number = 0;
    if (line == 0) {
      const bool header = !ToNumber(cells[0], &number);
      if (header) {
        columns = ControlColumns(model, path, cells);
        continue;
      }
      for (std::size_t i = 0; i < names.size(); ++i) columns.push_back(i);
      if (cells.size() != names.size()) {
        throw Error(ErrorCode::kParse, fmt::format("{}:1: {} columns, model '{}' has nu = {}", path, cells.size(),
                                                   ModelName(model), names.size()));
      }
    }
    if (cells.size() == 1 && cells[0].empty()) continue;
    if (ended) throw Error(ErrorCode::kParse, fmt::format("{}:{}: a row without controls stands before this one", path, line + 1));
    if (ParseControls(path, line + 1, cells, columns, names, &u)) {
      rows.push_back(u);
    } else {
      ended = true;
    }
  }
  if (rows.empty()) throw Error(ErrorCode::kParse, path + ": there is no row of controls");

  MatrixXd U(u.size(), static_cast<Eigen::Index>(rows.size()));
  for (std::size_t t = 0; t < rows.size(); ++t) U.col(static_cast<Eigen::Index>(t)) = rows[t];
  return U;
}

}  // namespace costate
