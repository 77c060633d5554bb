#include "optimizer/task_xml.h"

#include <costate/model.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include "core/extremes.h"
#include "core/number.h"
#include "core/read_file.h"

namespace costate {
namespace {

constexpr char kBlanks[] = " \t\r\n";

std::string Trim(const std::string& text) {
  const std::size_t from = text.find_first_not_of(kBlanks);
  if (from == std::string::npos) return "";
  return text.substr(from, text.find_last_not_of(kBlanks) - from + 1);
}

// of a folder that is a run, which file is meant
std::string ReadTaskFile(const std::string& path) {
  std::error_code code;
  const std::string what = "task file '" + path + "'", task = (std::filesystem::path(path) / "task.xml").string();
  if (std::filesystem::is_directory(path, code) && std::filesystem::exists(task, code))
    throw Error(ErrorCode::kFile, what + " is a folder: a run, whose task is '" + task + "'");
  return ReadFile(path, what);
}

}  // namespace

std::string XmlEscaped(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&': escaped += "&amp;"; break;
      case '<': escaped += "&lt;"; break;
      case '>': escaped += "&gt;"; break;
      case '"': escaped += "&quot;"; break;
      case '\'': escaped += "&apos;"; break;
      case '\n': escaped += "&#10;"; break;  // an attribute that has the character itself is read as having a blank
      default: escaped += c;
    }
  }
  return escaped;
}

XmlFile::XmlFile(const std::string& path) : XmlFile(ReadTaskFile(path), path) {}

XmlFile::XmlFile(std::string text, const std::string& path, const std::string& written_for)
    : path_(path), text_(std::move(text)), written_for_(written_for) {
  const pugi::xml_parse_result result =
      document_.load_buffer(text_.data(), text_.size(), pugi::parse_default, pugi::encoding_utf8);
  if (!result) {
    throw Error(ErrorCode::kParse, Place(result.offset) + ": this is not well-formed XML: " + result.description());
  }
}

std::string XmlFile::Place(std::ptrdiff_t offset) const {
  const std::size_t end = std::min(text_.size(), static_cast<std::size_t>(std::max<std::ptrdiff_t>(offset, 0)));
  const auto line = 1 + std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(end), '\n');
  if (!written_for_.empty()) return fmt::format("line {} of the task written for {}", line, written_for_);
  return fmt::format("{}:{}", path_, line);
}

std::string XmlFile::Edited(const std::vector<AttributeEdit>& edits) const {
  // where each value stands: behind the tag, between quotes
  struct Change {
    std::size_t from, to;
    std::string value;
  };
  std::vector<Change> changes;
  for (const AttributeEdit& edit : edits) {
    std::size_t at = static_cast<std::size_t>(edit.element.offset()) + edit.element.tag().size();
    while (at < text_.size()) {
      const std::size_t name = text_.find_first_not_of(kBlanks, at);
      const std::size_t equals = text_.find('=', name), open = text_.find_first_of("\"'", equals);
      const std::size_t close = open == std::string::npos ? open : text_.find(text_[open], open + 1);
      if (close == std::string::npos) break;
      at = close + 1;
      if (Trim(text_.substr(name, equals - name)) != edit.attribute) continue;
      changes.push_back({open + 1, close, XmlEscaped(edit.value)});
      break;
    }
  }
  std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) { return a.from > b.from; });
  std::string text = text_;
  for (const Change& change : changes) text.replace(change.from, change.to - change.from, change.value);
  return text;
}

XmlElement XmlFile::Root() const {
  std::vector<XmlElement> roots;
  for (const pugi::xml_node& node : document_.children()) {
    if (node.type() == pugi::node_element) roots.emplace_back(this, node);
  }
  if (roots.empty()) throw Error(ErrorCode::kParse, path_ + ":1: there is no element");
  if (roots.size() > 1) roots[1].Fail("there is one root element, this is a second");
  return roots[0];
}

XmlElement XmlFile::Root(const std::string& name) const {
  const XmlElement root = Root();
  if (root.tag() != name) root.Fail("the root element is <" + name + "> in such a file");
  return root;
}

std::vector<XmlElement> XmlElement::Children() const {
  std::vector<XmlElement> children;
  for (const pugi::xml_node& node : node_.children()) {
    if (node.type() == pugi::node_element) children.emplace_back(file_, node);
  }
  return children;
}

void XmlElement::Allow(const std::vector<std::string>& attributes) const {
  std::vector<std::string> seen;
  for (const pugi::xml_attribute& attribute : node_.attributes()) {
    const std::string name = attribute.name();
    if (std::find(attributes.begin(), attributes.end(), name) == attributes.end()) {
      Fail("there is no attribute '" + name + "'" + Suggestion(name, attributes));
    }
    if (std::find(seen.begin(), seen.end(), name) != seen.end()) Fail("attribute '" + name + "' is given twice");
    seen.push_back(name);
  }
  for (const pugi::xml_node& node : node_.children()) {
    if (node.type() != pugi::node_pcdata && node.type() != pugi::node_cdata) continue;
    if (!Trim(node.value()).empty()) Fail("there is text inside the element: '" + Trim(node.value()) + "'");
  }
}

std::optional<std::string> XmlElement::Text(const char* attribute) const {
  if (!Has(attribute)) return std::nullopt;
  std::string text = Trim(node_.attribute(attribute).value());
  if (text.empty()) Fail(std::string(attribute) + " is empty");
  return text;
}

VectorXd XmlElement::ParseNumbers(const char* attribute, const std::string& text) const {
  const std::vector<std::string> pieces = SplitBlanks(text);
  VectorXd numbers(pieces.size());
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (!ParseNumber(pieces[i], &numbers[static_cast<Eigen::Index>(i)])) {
      Fail(fmt::format("{}: '{}' is not a finite number", attribute, pieces[i]));
    }
  }
  return numbers;
}

std::optional<VectorXd> XmlElement::Numbers(const char* attribute) const {
  const std::optional<std::string> text = Text(attribute);
  if (!text) return std::nullopt;
  return ParseNumbers(attribute, *text);
}

std::optional<double> XmlElement::Number(const char* attribute) const {
  const std::optional<VectorXd> numbers = Numbers(attribute);
  if (!numbers) return std::nullopt;
  if (numbers->size() != 1) Fail(fmt::format("{} has {}, expected 1", attribute, Count(numbers->size(), "number")));
  return (*numbers)[0];
}

std::optional<double> XmlElement::PositiveNumber(const char* attribute) const {
  const std::optional<double> number = Number(attribute);
  if (number && *number <= 0) Fail(fmt::format("{} is {:g}, expected a number above 0", attribute, *number));
  return number;
}

std::optional<int> XmlElement::WholeNumber(const char* attribute, int minimum) const {
  const std::optional<double> number = Number(attribute);
  if (!number) return std::nullopt;
  if (*number != std::floor(*number) || *number < minimum || *number > std::numeric_limits<int>::max()) {
    Fail(fmt::format("{} is {:g}, expected a whole number of at least {}", attribute, *number, minimum));
  }
  return static_cast<int>(*number);
}

std::optional<int> XmlElement::Word(const char* attribute, const std::vector<std::string>& words) const {
  const std::optional<std::string> text = Text(attribute);
  if (!text) return std::nullopt;
  const auto found = std::find(words.begin(), words.end(), *text);
  if (found == words.end()) {
    Fail(fmt::format("{} is '{}', expected {}", attribute, *text, JoinWords(words, "or")));
  }
  return static_cast<int>(found - words.begin());
}

bool XmlElement::Flag(const char* attribute, bool otherwise) const {
  return Word(attribute, {"true", "false"}).value_or(otherwise ? 0 : 1) == 0;
}

std::vector<std::pair<std::string, std::string>> XmlElement::Attributes() const {
  std::vector<std::pair<std::string, std::string>> attributes;
  for (const pugi::xml_attribute& attribute : node_.attributes())
    attributes.emplace_back(attribute.name(), attribute.value());
  return attributes;
}

std::string XmlElement::Place() const { return file_->Place(node_.offset_debug()); }

std::string XmlElement::Says(const std::string& message) const {
  const std::string name = node_.attribute("name").value();
  return fmt::format("{}: <{}{}>: {}", Place(), node_.name(), name.empty() ? "" : " name='" + name + "'", message);
}

void XmlElement::Fail(const std::string& message, ErrorCode code) const { throw Error(code, Says(message)); }

std::optional<TimeWindow> ParseWindow(const std::string& text) {
  const std::vector<std::string> pieces = SplitBlanks(text);
  const auto time = [](const std::string& piece) -> std::optional<double> {
    double seconds = 0;
    if (piece == "end") return kInf;
    return ParseNumber(piece, &seconds) ? std::optional(seconds) : std::nullopt;
  };
  if (pieces.empty() || pieces.size() > 2) return std::nullopt;
  const std::optional<double> begin = time(pieces.front()), end = time(pieces.back());
  const bool one_time = pieces.size() == 1;
  if (!begin || !end || (!one_time && *begin == kInf)) return std::nullopt;
  return TimeWindow{*begin, *end, one_time};
}

std::vector<std::string> SplitBlanks(const std::string& text) {
  std::vector<std::string> pieces;
  std::size_t at = text.find_first_not_of(kBlanks);
  while (at != std::string::npos) {
    const std::size_t end = text.find_first_of(kBlanks, at);
    pieces.push_back(text.substr(at, end == std::string::npos ? end : end - at));
    at = text.find_first_not_of(kBlanks, end);
  }
  return pieces;
}

std::vector<std::string> SplitNames(const std::string& text, const std::vector<std::string>& known) {
  const std::vector<std::string> words = SplitBlanks(text);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < words.size();) {
    std::string run, name = words[i];
    std::size_t taken = 1;
    for (std::size_t n = 1; i + n <= words.size(); ++n) {
      run += (n == 1 ? "" : " ") + words[i + n - 1];
      if (n == 1 || std::find(known.begin(), known.end(), run) == known.end()) continue;
      name = run;
      taken = n;
    }
    names.push_back(name);
    i += taken;
  }
  return names;
}

std::vector<std::string> SplitTimed(const std::string& text) {
  std::vector<std::string> names;
  bool whole = true;
  for (const std::string& word : SplitBlanks(text)) {
    if (whole) {
      names.push_back(word);
    } else {
      names.back() += " " + word;
    }
    whole = word.find('@') != std::string::npos;
  }
  return names;
}

std::string Count(long n, const std::string& noun) {
  if (n == 1) return "1 " + noun;
  const bool y = !noun.empty() && noun.back() == 'y';
  return fmt::format("{} {}", n, y ? noun.substr(0, noun.size() - 1) + "ies" : noun + "s");
}

}  // namespace costate
