#include "optimizer/task_csv.h"

#include <costate/error.h>
#include <costate/model.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <sstream>

#include "core/extremes.h"
#include "core/name.h"
#include "core/number.h"
#include "core/read_file.h"
#include "optimizer/si_unit.h"
#include "optimizer/task_xml.h"
#include "rollout/record_format.h"

namespace costate {
namespace {

constexpr const char* kEntryHeads[] = {"qpos[", "qvel[", "act[", "ctrl["};
constexpr const char* kMotionHeads[] = {"qpos[", "qvel[", "act[", "sensor["};
constexpr const char* kStems[] = {"ctrl", "u", "qpos", "q", "qvel", "v", "act", "a"};  // and a number
constexpr std::size_t kMostNamed = 12;                                                 // columns in an error
constexpr char kByteOrderMark[] = "\xef\xbb\xbf";  // with which spreadsheets begin UTF-8
constexpr double kSameTime = 1e-6;                 // share of a knot below which two times are one

std::string TrimCell(std::string cell) {
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!cell.empty() && blank(cell.back())) cell.pop_back();
  while (!cell.empty() && blank(cell.front())) cell.erase(0, 1);
  if (cell.size() < 2 || cell.front() != '"' || cell.back() != '"') return cell;
  std::string inside;
  for (std::size_t i = 1; i + 1 < cell.size(); ++i) {
    inside += cell[i];
    if (cell[i] == '"' && cell[i + 1] == '"') ++i;  // a doubled quote is one
  }
  return inside;
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

// "knee" of "qpos[knee]"; "qpos[root].x" stays, "root" says too little
std::string BareEntry(const std::string& name) { return name.ends_with(']') ? Inside(name) : name; }

template <std::size_t n>
bool BeginsWithOne(const char* const (&heads)[n], const std::string& name) {
  return std::ranges::any_of(heads, [&](const char* head) { return name.starts_with(head); });
}

// entries that have a name of their own in a model, not one that a task gave them
bool IsEntry(const std::string& name) { return BeginsWithOne(kEntryHeads, name); }

// names that say no more than the order: "ctrl0,ctrl1" or "u1,u2", "q" alone, "x,z" of qpos[root].x and qpos[root].z
bool SaysOrder(const CsvTable& table, const std::vector<std::string>& wanted) {
  std::vector<std::string> given;
  for (const std::string& name : table.names) {
    if (name != "time") given.push_back(name);
  }
  if (given.size() != wanted.size()) return false;
  bool parts = true, numbered = true;
  int first = 0;
  for (std::size_t i = 0; i < given.size(); ++i) {
    parts = parts && wanted[i].ends_with("]." + given[i]);
    const std::size_t digits = given[i].find_first_of("0123456789");
    const bool known = std::find(std::begin(kStems), std::end(kStems), given[i].substr(0, digits)) != std::end(kStems);
    double number = 0;
    const bool counted = digits != std::string::npos && ParseNumber(given[i].substr(digits), &number);
    if (i == 0) first = static_cast<int>(number);
    numbered = numbered && known && (counted || given.size() == 1) && first + static_cast<int>(i) == number;
  }
  return parts || numbered;
}

struct NamedUnit {
  std::string name, unit;
};

// "time [s]" and "time (s)" are called time; "qpos[knee]" and "ctrl[left (1)]" keep what their brackets hold
NamedUnit TakeUnit(const std::string& name) {
  int depth = 0;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const bool opens = name[i] == '[' || name[i] == '(';
    if (opens && depth == 0 && i > 0 && name[i - 1] == ' ') {
      const std::size_t close = name.find_first_of("])", i);
      return {TrimCell(name.substr(0, i)), TrimCell(name.substr(i + 1, std::min(close, name.size()) - i - 1))};
    }
    if (opens) ++depth;
    if (name[i] == ']' || name[i] == ')') --depth;
  }
  return {name, ""};
}

bool IsHeader(const std::vector<std::string>& cells) {
  double number;
  return std::none_of(cells.begin(), cells.end(), [&](const std::string& cell) { return ParseNumber(cell, &number); });
}

[[noreturn]] void Fail(const CsvTable& table, int line, const std::string& message) {
  throw Error(ErrorCode::kParse, fmt::format("{}:{}: {}", table.path, line, message));
}

// the only column of that name, or -1
int Find(const CsvTable& table, const std::string& name) {
  const auto found = std::find(table.names.begin(), table.names.end(), name);
  if (found == table.names.end()) return -1;
  if (std::find(found + 1, table.names.end(), name) != table.names.end())
    Fail(table, table.header, fmt::format("two columns are called '{}'", name));
  return static_cast<int>(found - table.names.begin());
}

// a saved run's folder stands for its trajectory
std::istringstream Open(CsvTable* table) {
  std::error_code ignored;
  if (std::filesystem::is_directory(table->path, ignored)) {
    const std::string inside = (std::filesystem::path(table->path) / "trajectory.csv").string();
    if (!std::filesystem::exists(inside, ignored))
      throw Error(ErrorCode::kFile, fmt::format("folder '{}' is no saved run: it has no trajectory.csv", table->path));
    table->path = inside;
  }
  return std::istringstream(ReadFile(table->path, "file '" + table->path + "'"));
}

}  // namespace

int CsvTable::Column(const std::string& name) const {
  const int exact = Find(*this, name);
  return exact < 0 ? Find(*this, BareEntry(name)) : exact;
}

std::vector<int> CsvTable::StateColumns(const mjModel* model) const {
  std::vector<int> columns;
  for (const std::string& name : StateNames(model)) {
    const int exact = Find(*this, name);
    columns.push_back(exact < 0 && name.starts_with("qpos[") ? Column(name) : exact);
  }
  return columns;
}

std::string CsvTable::Misspelled(const std::vector<std::string>& wanted, const std::vector<int>& columns,
                                 std::size_t i) const {
  // "kne" or "qpos[kne]" for "qpos[knee]"
  const std::size_t open = wanted[i].find('[');
  const std::string head = wanted[i].substr(0, open), bare = BareEntry(wanted[i]);
  std::vector<std::string> near;
  std::vector<std::size_t> at;
  for (std::size_t column = 0; column < names.size(); ++column) {
    const std::string& name = names[column];
    if (name == "time" || std::find(columns.begin(), columns.end(), static_cast<int>(column)) != columns.end())
      continue;
    const std::size_t bracket = name.find('[');
    if (bracket != std::string::npos && name.substr(0, bracket) != head) continue;
    near.push_back(BareEntry(name));
    at.push_back(column);
  }
  const std::string nearest = NearestName(bare, near);
  const auto found = std::find(near.begin(), near.end(), nearest);
  return nearest.empty() ? "" : names[at[static_cast<std::size_t>(found - near.begin())]];
}

std::string CsvTable::MisspelledText(const std::vector<std::string>& wanted, const std::vector<int>& columns) const {
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const std::string near = columns[i] < 0 ? Misspelled(wanted, columns, i) : "";
    if (near.empty() || (!wanted[i].starts_with("qpos[") && near.find('[') == std::string::npos)) continue;
    return fmt::format("{}:{}: column '{}' is none of the model, did you mean '{}'?", path, header, near, wanted[i]);
  }
  return "";
}

namespace {

// a column's name without its unit, which is taken out of its numbers
double TakeName(const std::string& cell, CsvTable* table) {
  const auto [name, unit] = TakeUnit(cell);
  table->names.push_back(name);
  if (unit == "g") {
    Fail(*table, table->header,
         fmt::format("column '{}' is in g, which may be grams or gravity: write it in kg or m/s^2", name));
  }
  const std::optional<double> known = ScaleOfUnit(unit);
  if (!unit.empty() && !known) table->unknown.push_back(fmt::format("{} ({})", name, unit));
  const double scale = known.value_or(1);
  if (scale != 1) table->converted.push_back(fmt::format("{} from {}", name, unit));
  return scale;
}

}  // namespace

CsvTable ReadTable(const std::string& path) {
  CsvTable table;
  table.path = path;
  std::istringstream file = Open(&table);
  std::vector<std::vector<double>> rows;
  std::string text;
  std::vector<double> scale;  // of each column
  std::size_t columns = 0;
  for (int line = 1; std::getline(file, text); ++line) {
    if (line == 1 && text.starts_with(kByteOrderMark)) text.erase(0, sizeof(kByteOrderMark) - 1);
    if (TrimCell(text).empty() || text[0] == '#') continue;
    const std::vector<std::string> cells = SplitCells(text);
    if (columns == 0) {
      if (cells.size() == 1 && text.find(';') != std::string::npos)
        Fail(table, line, "its columns are separated by ';': write them with commas between, and points in numbers");
      columns = cells.size();
      if (IsHeader(cells)) {
        table.header = line;
        for (const std::string& cell : cells) scale.push_back(TakeName(cell, &table));
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
        const bool other = columns == 1 && cells[i].find_first_of(";\t ") != std::string::npos;
        Fail(table, line,
             fmt::format("'{}' in column {} is not a finite number{}", cells[i], i + 1,
                         other ? "; columns are separated by commas" : ""));
      }
      if (!scale.empty()) row[i] *= scale[i];
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

namespace {

// what no control is: columns of state or sensors, of this model or of another's run
bool IsOfMotion(const std::string& name) { return BeginsWithOne(kMotionHeads, name); }

// the names that a saved run gives to other columns
bool IsOfRun(const std::string& name, const mjModel* model) {
  const std::vector<std::string> run =
      TrajectoryHeader(model, {.cost = true, .gradient_norm = true, .diagnostics = true});
  return std::any_of(run.begin(), run.end(), [&](const std::string& known) { return TakeUnit(known).name == name; });
}

void RefuseOtherColumns(const CsvTable& table, const mjModel* model) {
  std::vector<int> controls;
  for (const std::string& name : ControlNames(model)) controls.push_back(table.Column(name));
  const auto controls_have = [&](int i) { return std::find(controls.begin(), controls.end(), i) != controls.end(); };
  if (controls_have(-1)) return;  // in order, or told in other words

  // a recorded motion; "knee" is the position of a joint where no actuator is called so
  const std::vector<int> state = table.StateColumns(model);
  const auto is_state = [&](int i) { return i >= 0 && !controls_have(i); };
  if (std::any_of(state.begin(), state.end(), is_state)) return;
  if (std::any_of(table.names.begin(), table.names.end(), IsOfMotion)) return;
  for (std::size_t i = 0; i < table.names.size(); ++i) {
    if (controls_have(static_cast<int>(i)) || IsOfRun(table.names[i], model)) continue;
    Fail(table, table.header,
         fmt::format("column '{}' is no control of model '{}', which has {}", table.names[i], ModelName(model),
                     FirstWords(ControlNames(model), kMostNamed)));
  }
}

TimeSeries SeriesOf(const CsvTable& table, const std::vector<std::string>& names, bool needs_time) {
  const int n = static_cast<int>(names.size()), columns = static_cast<int>(table.values.cols());
  int time = table.Column("time");

  // by header if it has any of the names, else by position
  std::vector<int> column(names.size());
  std::vector<std::string> missing;
  for (int i = 0; i < n; ++i) {
    column[i] = table.Column(names[i]);
    // one column is not two entries: "knee" is no velocity where it is a position
    if (std::find(column.begin(), column.begin() + i, column[i]) != column.begin() + i) column[i] = -1;
    if (column[i] < 0) missing.push_back(names[i]);
  }
  const bool named =
      static_cast<int>(missing.size()) < n ||
      (!table.names.empty() && std::all_of(names.begin(), names.end(), IsEntry) && !SaysOrder(table, names));
  if (!missing.empty() && named) {
    for (std::size_t i = 0; i < names.size(); ++i) {
      const std::string near = column[i] < 0 ? table.Misspelled(names, column, i) : "";
      if (near.empty()) continue;
      Fail(table, table.header, fmt::format("column '{}' is none of the model, did you mean '{}'?", near, names[i]));
    }
    Fail(
        table, table.header,
        fmt::format(
            "the header has no column '{}', it has {}{}", missing[0], FirstWords(table.names, kMostNamed),
            static_cast<int>(missing.size()) < n ? "" : "; in order are columns without a header, or called u0, u1 …"));
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
  if (needs_time && time < 0) Fail(table, table.header, "there is no column 'time'");

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
        Fail(table, line,
             fmt::format("the cell in column {} is empty or nan{}", column[i] + 1,
                         time >= 0 ? ": leave out rows of which not all was measured, those beside them are joined by "
                                     "straight lines"
                                   : ""));
      }
    }
    if (time < 0) continue;
    if (!std::isfinite(series.time[row])) Fail(table, line, "the time is empty");
    if (row > 0 && series.time[row] <= series.time[row - 1]) {
      Fail(table, line,
           fmt::format("times do not increase: {:.9g} s follows {:.9g} s", table.values(row, time),
                       table.values(row - 1, time)));
    }
  }
  return series;
}

}  // namespace

TimeSeries ReadTimeSeries(const std::string& path, const std::vector<std::string>& names, bool needs_time) {
  return SeriesOf(ReadTable(path), names, needs_time);
}

TimeSeries ReadControls(const std::string& path, const mjModel* model) {
  const CsvTable table = ReadTable(path);
  if (model->nu > 0) RefuseOtherColumns(table, model);
  return SeriesOf(table, ControlNames(model), false);
}

std::string LeftOut(const TimeSeries& series, int N, double knot_time) {
  const Eigen::Index rows = series.values.cols();
  if (series.time.size() == 0) {
    return rows > N ? fmt::format("{} rows, one a control interval, and there are {}", rows, N) : "";
  }

  // a motion's last row stands at the end of the last interval, and the interval that begins there may be cut off
  const double last = series.time[rows - 1];
  if (last < (N + 1 - kSameTime) * knot_time) return "";
  return fmt::format("controls until {:.6g} s, and the motion ends after {:.6g} s", last, N * knot_time);
}

MatrixXd Sample(const TimeSeries& series, int N, double knot_time, const Interpolation& between) {
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
      const auto before = series.values.col(k), after = series.values.col(k + 1);
      if (between) U.col(t) = between(before, after, s);
      else U.col(t) = (1 - s) * before + s * after;
    }
  }
  return U;
}

}  // namespace costate
