// Reading a task file: elements that know their line, attributes that are checked, errors that say what was expected.
#ifndef COSTATE_OPTIMIZER_TASK_XML_H_
#define COSTATE_OPTIMIZER_TASK_XML_H_

#include <costate/error.h>
#include <costate/types.h>

#include <optional>
#include <pugixml.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/did_you_mean.h"

namespace costate {

class XmlElement;
struct AttributeEdit;

/// A task file, parsed. Lives as long as its elements.
class XmlFile {
 public:
  /// @throws Error{kFile} if it cannot be read; Error{kParse} with the line where the XML is broken.
  explicit XmlFile(const std::string& path);

  /// The same of a text. @param path  stands in messages.
  /// @param written_for  the robot that this text was written for, in no file yet: messages then say whose lines they
  ///                     name, "line 7 of the task written for pole.xml".
  XmlFile(std::string text, const std::string& path, const std::string& written_for = "");

  const std::string& path() const { return path_; }
  const std::string& text() const { return text_; }

  /// The only root element. @throws Error{kParse} if it has another name.
  XmlElement Root(const std::string& name) const;

  /// The same, whatever its name.
  XmlElement Root() const;

  /// "pole.task.xml:7"
  std::string Place(std::ptrdiff_t offset) const;

  /// The text with other values of these attributes, everything else as it is, comments included.
  std::string Edited(const std::vector<AttributeEdit>& edits) const;

 private:
  std::string path_, text_, written_for_;
  pugi::xml_document document_;
};

/// One element. Every error names file, line and element: "pole.task.xml:7: <cost name='tip'>: …".
class XmlElement {
 public:
  XmlElement(const XmlFile* file, pugi::xml_node node) : file_(file), node_(node) {}

  std::string tag() const { return node_.name(); }
  std::ptrdiff_t offset() const { return node_.offset_debug(); }  ///< of its tag in the file's text
  std::vector<XmlElement> Children() const;

  /// @throws Error{kParse} for an attribute not listed, one given twice, or text inside the element.
  void Allow(const std::vector<std::string>& attributes) const;

  bool Has(const char* attribute) const { return !node_.attribute(attribute).empty(); }
  std::optional<std::string> Text(const char* attribute) const;  ///< blanks around it removed; never empty
  std::optional<double> Number(const char* attribute) const;     ///< finite
  std::optional<double> PositiveNumber(const char* attribute) const;
  std::optional<int> WholeNumber(const char* attribute, int minimum) const;
  std::optional<VectorXd> Numbers(const char* attribute) const;  ///< at least one, all finite
  std::optional<int> Word(const char* attribute,
                          const std::vector<std::string>& words) const;  ///< its place in the list
  bool Flag(const char* attribute, bool otherwise) const;                ///< true or false

  /// Reads numbers out of a piece of an attribute's text.
  VectorXd ParseNumbers(const char* attribute, const std::string& text) const;

  /// Names and values of all attributes, in order.
  std::vector<std::pair<std::string, std::string>> Attributes() const;

  /// "pole.task.xml:7"
  std::string Place() const;

  /// The message behind file, line and element.
  std::string Says(const std::string& message) const;

  [[noreturn]] void Fail(const std::string& message, ErrorCode code = ErrorCode::kParse) const;

 private:
  const XmlFile* file_;
  pugi::xml_node node_;
};

/// Another value of an attribute that an element has.
struct AttributeEdit {
  XmlElement element;
  std::string attribute, value;
};

/// As it may stand between quotes of either kind, or as text.
std::string XmlEscaped(const std::string& text);

/// when="t0 t1", "t0 end", "t" or "end" in seconds.
struct TimeWindow {
  double begin, end;  ///< infinity: the motion's end, whenever that is
  bool one_time;      ///< end = begin
};
std::optional<TimeWindow> ParseWindow(const std::string& text);  ///< nothing for other texts

/// Pieces of a text between blanks.
std::vector<std::string> SplitBlanks(const std::string& text);

/// The same of names, which may have blanks themselves: the longest run of words that is one of `known` is one name.
std::vector<std::string> SplitNames(const std::string& text, const std::vector<std::string>& known);

/// The same of names with times, "crouch@0 my stand@0.5": a name goes on up to the word with its time.
std::vector<std::string> SplitTimed(const std::string& text);

/// "3 entries", "1 entry".
std::string Count(long n, const std::string& noun);

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_TASK_XML_H_
