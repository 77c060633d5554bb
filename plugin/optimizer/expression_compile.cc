// Text to operations: recursive descent, every rule returns the nodes of a vector.
#include "optimizer/expression.h"

#include <costate/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cmath>
#include <map>
#include <numbers>

#include "core/number.h"
#include "optimizer/task_xml.h"

namespace costate {
namespace {

using Op = Expression::Op;
using Node = Expression::Node;
using Nodes = std::vector<int>;  // a vector: the nodes of its entries

constexpr int kMaxExpressionDepth = 200;  // nested brackets
constexpr std::size_t kMaxOperations =
    1000000;  // far beyond what anyone writes; definitions that double each other get there
constexpr std::size_t kQuotedText = 60, kQuotedRest = 20;

const std::map<std::string, Op>& Functions() {
  static const std::map<std::string, Op> functions{
      {"sin", Op::kSin},   {"cos", Op::kCos},   {"tan", Op::kTan},   {"asin", Op::kAsin},  {"acos", Op::kAcos},
      {"atan", Op::kAtan}, {"sinh", Op::kSinh}, {"cosh", Op::kCosh}, {"tanh", Op::kTanh},  {"exp", Op::kExp},
      {"log", Op::kLog},   {"sqrt", Op::kSqrt}, {"abs", Op::kAbs},   {"floor", Op::kFloor}};
  return functions;
}

const std::map<std::string, Op>& PairFunctions() {
  static const std::map<std::string, Op> functions{{"min", Op::kMin}, {"max", Op::kMax}, {"atan2", Op::kAtan2}};
  return functions;
}

const std::vector<std::string> kVectorFunctions{"dot", "norm", "normalize", "cross", "sum", "mean", "clamp", "mod"};

std::vector<std::string> Reserved() {
  std::vector<std::string> words{"pi", "time"};
  for (const auto& [name, op] : Functions()) words.push_back(name);
  for (const auto& [name, op] : PairFunctions()) words.push_back(name);
  words.insert(words.end(), kVectorFunctions.begin(), kVectorFunctions.end());
  return words;
}

bool IsLetter(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool IsNameCharacter(char c) { return IsLetter(c) || std::isdigit(static_cast<unsigned char>(c)); }

// the beginning of a long text, cut between characters of UTF-8
std::string Beginning(const std::string& text, std::size_t length) {
  if (text.size() <= length) return text;
  while (length > 0 && (static_cast<unsigned char>(text[length]) & 0xc0) == 0x80) length--;
  return text.substr(0, length) + "…";
}

class ExpressionCompiler {
 public:
  /// @param defined  what names stand for.
  ExpressionCompiler(const std::map<std::string, Nodes>& defined, std::vector<Node>* nodes)
      : defined_(defined), nodes_(nodes) {}

  Nodes Compile(const std::string& text) {
    text_ = text;
    at_ = 0;
    const Nodes result = Sum();
    Skip();
    if (at_ < text_.size()) Fail("expected an operator or the end");
    return result;
  }

 private:
  [[noreturn]] void Fail(const std::string& message) const {
    const std::string text = Beginning(text_, kQuotedText);
    const std::string rest = Beginning(text_.substr(std::min(at_, text_.size())), kQuotedRest);
    throw Error(ErrorCode::kParse, rest.empty() ? fmt::format("'{}', at its end: {}", text, message)
                                                : fmt::format("'{}', at '{}': {}", text, rest, message));
  }
  void Skip() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) at_++;
  }
  char Peek() {
    Skip();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool Take(char c) {
    if (Peek() != c) return false;
    at_++;
    return true;
  }
  void Expect(char c) {
    if (!Take(c)) Fail(fmt::format("expected '{}'", c));
  }

  // ---- nodes ----
  int Add(Node node) {
    const auto number = [&](int i) { return (*nodes_)[static_cast<std::size_t>(i)]; };
    if (node.op == Op::kDivide && number(node.b).op == Op::kConstant && number(node.b).value == 0)
      Fail("a division by 0");

    // what does not depend on anything is a number
    if (node.op != Op::kInput && node.a >= 0 && number(node.a).op == Op::kConstant &&
        (node.b < 0 || number(node.b).op == Op::kConstant)) {
      const double value = Expression::Operate(node.op, number(node.a).value, node.b < 0 ? 0 : number(node.b).value);
      if (!std::isfinite(value)) Fail(fmt::format("a value of {:g}", value));
      node = {Op::kConstant, -1, -1, value};
    }
    CheckLength(nodes_->size());
    nodes_->push_back(node);
    return static_cast<int>(nodes_->size()) - 1;
  }
  void CheckLength(std::size_t length) const {
    if (length >= kMaxOperations) Fail(fmt::format("more than {} operations or entries", kMaxOperations));
  }
  int Constant(double value) { return Add({Op::kConstant, -1, -1, value}); }
  int Pair(Op op, int a, int b) { return Add({op, a, b}); }
  Nodes Each(Op op, const Nodes& a) {
    Nodes result;
    for (int i : a) result.push_back(Add({op, i}));
    return result;
  }
  static std::string Sizes(const Nodes& a, const Nodes& b) {
    return Count(static_cast<long>(a.size()), "number") + " and " + Count(static_cast<long>(b.size()), "number");
  }
  // entry by entry; a single number goes with every entry of the other
  Nodes Each(Op op, const Nodes& a, const Nodes& b, const std::string& what) {
    const std::size_t n = std::max(a.size(), b.size());
    if ((a.size() != n && a.size() != 1) || (b.size() != n && b.size() != 1)) {
      Fail(what + " of " + Sizes(a, b));
    }
    Nodes result;
    for (std::size_t i = 0; i < n; i++) {
      result.push_back(Pair(op, a[a.size() == 1 ? 0 : i], b[b.size() == 1 ? 0 : i]));
    }
    return result;
  }
  int SumOf(const Nodes& a) {
    int sum = a[0];
    for (std::size_t i = 1; i < a.size(); i++) sum = Pair(Op::kAdd, sum, a[i]);
    return sum;
  }
  int Norm(const Nodes& a) {
    return a.size() == 1 ? Add({Op::kAbs, a[0]}) : Add({Op::kSqrt, SumOf(Each(Op::kMultiply, a, a, "a product"))});
  }

  // ---- rules ----
  Nodes Sum() {
    Nodes a = Product();
    for (;;) {
      if (Take('+')) {
        a = Each(Op::kAdd, a, Product(), "a sum");
      } else if (Take('-')) {
        a = Each(Op::kSubtract, a, Product(), "a difference");
      } else {
        return a;
      }
    }
  }
  Nodes Product() {
    Nodes a = Signed();
    for (;;) {
      if (Take('*')) {
        a = Each(Op::kMultiply, a, Signed(), "a product");
      } else if (Take('/')) {
        a = Each(Op::kDivide, a, Signed(), "a quotient");
      } else {
        return a;
      }
    }
  }
  Nodes Signed() {
    if (++depth_ > kMaxExpressionDepth) Fail("too deeply nested");
    Nodes a;
    if (Take('-')) {
      a = Each(Op::kSubtract, {Constant(0)}, Signed(), "");
    } else if (Take('+')) {
      a = Signed();
    } else {
      a = Entries();
      if (Take('^')) a = Each(Op::kPower, a, Signed(), "a power");
    }
    depth_--;
    return a;
  }
  // v[2], v[0, 2], v[0:2] (its end is not meant)
  Nodes Entries() {
    Nodes a = Primary();
    while (Take('[')) {
      Nodes chosen;
      do {
        const int from = Index(a.size());
        if (Take(':')) {
          const int to = Index(a.size() + 1);
          if (to <= from) Fail(fmt::format("{}:{} has no entry", from, to));
          chosen.insert(chosen.end(), a.begin() + from, a.begin() + to);
        } else {
          chosen.push_back(a[static_cast<std::size_t>(from)]);
        }
        CheckLength(chosen.size());
      } while (Take(','));
      Expect(']');
      a = chosen;
    }
    return a;
  }
  int Index(std::size_t size) {
    Skip();
    std::size_t end = at_;
    while (end < text_.size() && std::isdigit(static_cast<unsigned char>(text_[end]))) end++;
    if (end == at_ || end - at_ > 6) Fail("expected a whole number");
    const int index = std::atoi(text_.substr(at_, end - at_).c_str());
    if (index >= static_cast<int>(size)) {
      Fail(fmt::format("it has {}, counted from 0", Count(static_cast<long>(size), "entry")));
    }
    at_ = end;
    return index;
  }
  Nodes Primary() {
    const char c = Peek();
    if (Take('(')) {
      const Nodes a = Sum();
      Expect(')');
      return a;
    }
    if (Take('[')) {
      Nodes all;
      do {
        const Nodes a = Sum();
        all.insert(all.end(), a.begin(), a.end());
        CheckLength(all.size());
      } while (Take(','));
      Expect(']');
      return all;
    }
    if (std::isdigit(static_cast<unsigned char>(c)) || c == '.') return Number();
    if (IsLetter(c)) return Named();
    Fail("expected a number, a name or a bracket");
  }
  Nodes Number() {
    double value = 0;
    const std::size_t length = LeadingNumber(std::string_view(text_).substr(at_), &value);
    if (length == 0) Fail("expected a number");
    at_ += length;
    return {Constant(value)};
  }
  Nodes Named() {
    const std::size_t begin = at_;
    std::size_t end = at_;
    while (end < text_.size() && IsNameCharacter(text_[end])) end++;
    const std::string name = text_.substr(at_, end - at_);
    at_ = end;
    if (Peek() == '(') return Call(name, begin);
    if (name == "pi") return {Constant(std::numbers::pi)};
    if (name == "time") return {Add({Op::kTime})};
    if (const auto found = defined_.find(name); found != defined_.end()) return found->second;
    at_ = begin;
    std::vector<std::string> known;
    for (const auto& [word, entries] : defined_) known.push_back(word);
    Fail(fmt::format("there is no <measure> or <let> '{}'{}", name, Suggestion(name, known)));
  }
  Nodes Call(const std::string& name, std::size_t begin) {
    Expect('(');
    std::vector<Nodes> arguments;
    do {
      arguments.push_back(Sum());
    } while (Take(','));
    Expect(')');
    const std::size_t after = at_;
    at_ = begin;  // errors name the call
    const Nodes result = Apply(name, arguments);
    at_ = after;
    return result;
  }
  void CheckCount(const std::string& name, const std::vector<Nodes>& arguments, std::size_t expected) {
    if (arguments.size() != expected) {
      Fail(fmt::format("{} takes {}, not {}", name, Count(static_cast<long>(expected), "argument"), arguments.size()));
    }
  }
  Nodes Apply(const std::string& name, const std::vector<Nodes>& v) {
    if (const auto one = Functions().find(name); one != Functions().end()) {
      CheckCount(name, v, 1);
      return Each(one->second, v[0]);
    }
    if (const auto two = PairFunctions().find(name); two != PairFunctions().end()) {
      CheckCount(name, v, 2);
      return Each(two->second, v[0], v[1], name);
    }
    if (name == "sum" || name == "mean" || name == "norm" || name == "normalize") {
      CheckCount(name, v, 1);
      if (name == "sum") return {SumOf(v[0])};
      if (name == "mean") return {Pair(Op::kDivide, SumOf(v[0]), Constant(static_cast<double>(v[0].size())))};
      const int length = Norm(v[0]);
      return name == "norm" ? Nodes{length} : Each(Op::kDivide, v[0], {length}, name);
    }
    if (name == "dot") {
      CheckCount(name, v, 2);
      if (v[0].size() != v[1].size()) Fail("dot of " + Sizes(v[0], v[1]));
      return {SumOf(Each(Op::kMultiply, v[0], v[1], name))};
    }
    if (name == "cross") {
      CheckCount(name, v, 2);
      if (v[0].size() != 3 || v[1].size() != 3) Fail("cross takes two vectors of 3 numbers");
      Nodes result;
      for (std::size_t i = 0; i < 3; i++) {
        const std::size_t j = (i + 1) % 3, k = (i + 2) % 3;
        const int first = Pair(Op::kMultiply, v[0][j], v[1][k]), second = Pair(Op::kMultiply, v[0][k], v[1][j]);
        result.push_back(Pair(Op::kSubtract, first, second));
      }
      return result;
    }
    if (name == "clamp") {
      CheckCount(name, v, 3);
      return Each(Op::kMax, Each(Op::kMin, v[0], v[2], name), v[1], name);
    }
    if (name == "mod") {  // a - b floor(a / b): in [0, b), its slope by b where it does not jump
      CheckCount(name, v, 2);
      const Nodes whole = Each(Op::kFloor, Each(Op::kDivide, v[0], v[1], name));
      return Each(Op::kSubtract, v[0], Each(Op::kMultiply, v[1], whole, name), name);
    }
    Fail(fmt::format("there is no function '{}'{}", name, Suggestion(name, Reserved())));
  }

  const std::map<std::string, Nodes>& defined_;
  std::vector<Node>* nodes_;
  std::string text_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

Expression::Expression(const std::string& text, const std::vector<ExpressionName>& names) {
  static std::atomic<std::uint64_t> count = 0;
  number_ = ++count;
  // one definition after the other, each once
  std::map<std::string, Nodes> defined;
  for (const ExpressionName& name : names) {
    Nodes entries;
    if (name.text.empty()) {
      for (int k = 0; k < name.size; k++) {
        entries.push_back(static_cast<int>(nodes_.size()));
        nodes_.push_back({Op::kInput, name.first + k});
      }
    } else {
      try {
        entries = ExpressionCompiler(defined, &nodes_).Compile(name.text);
      } catch (const Error& error) {
        throw Error(error.code(), fmt::format("<let> '{}': {}", name.name, error.what()));
      }
    }
    defined[name.name] = std::move(entries);
  }
  results_ = ExpressionCompiler(defined, &nodes_).Compile(text);
  FindCurved();
}

std::vector<std::string> ExpressionWords(const std::string& text) {
  std::vector<std::string> words;
  for (std::size_t i = 0; i < text.size();) {
    if (IsLetter(text[i])) {
      std::size_t end = i;
      while (end < text.size() && IsNameCharacter(text[end])) end++;
      words.push_back(text.substr(i, end - i));
      i = end;
    } else if (IsNameCharacter(text[i]) || text[i] == '.') {  // a number, 1e-3 and all
      double number = 0;
      i += std::max<std::size_t>(LeadingNumber(std::string_view(text).substr(i), &number), 1);
    } else {
      i++;
    }
  }
  return words;
}

bool IsExpressionName(const std::string& name) {
  if (name.empty() || !IsLetter(name[0]) || !std::all_of(name.begin(), name.end(), IsNameCharacter)) return false;
  const std::vector<std::string> reserved = Reserved();
  return std::find(reserved.begin(), reserved.end(), name) == reserved.end();
}

}  // namespace costate
