// plugin/optimizer/task.xsd says what LoadTask takes: no more, and at least what all task files of the repository use.
#include <gtest/gtest.h>

#include <map>
#include <pugixml.hpp>
#include <set>
#include <string>

#include "support/task_file.h"

namespace costate {
namespace {

const std::string kRoot = std::string(COSTATE_MODELS) + "/..";

struct SchemaElement {
  std::set<std::string> attributes, flags, children;
};

std::map<std::string, SchemaElement> ReadSchema() {
  pugi::xml_document document;
  EXPECT_TRUE(document.load_file((kRoot + "/plugin/optimizer/task.xsd").c_str()));
  const pugi::xml_node schema = document.child("xs:schema");
  std::map<std::string, std::set<std::string>> groups;
  for (const pugi::xml_node group : schema.children("xs:attributeGroup")) {
    for (const pugi::xml_node attribute : group.children("xs:attribute"))
      groups[group.attribute("name").value()].insert(attribute.attribute("name").value());
  }
  std::map<std::string, SchemaElement> elements;
  for (const pugi::xml_node type : schema.children("xs:complexType")) {
    SchemaElement& element = elements[type.attribute("name").value()];
    for (const pugi::xml_node attribute : type.children("xs:attribute")) {
      const std::string of = attribute.attribute("type").value();
      EXPECT_NE(of, "xs:boolean") << "which has 0 and 1, too: " << attribute.attribute("name").value();
      element.attributes.insert(attribute.attribute("name").value());
      if (of == "flag") element.flags.insert(attribute.attribute("name").value());
    }
    for (const pugi::xml_node group : type.children("xs:attributeGroup")) {
      const std::set<std::string>& more = groups.at(group.attribute("ref").value());
      element.attributes.insert(more.begin(), more.end());
    }
    for (const char* list : {"xs:sequence", "xs:choice"}) {
      for (const pugi::xml_node child : type.child(list).children("xs:element"))
        element.children.insert(child.attribute("name").value());
    }
  }
  return elements;
}

// what LoadTask says of an element with this attribute, "" when it takes it
std::string Complaint(const std::string& element, const std::string& attribute, const std::string& value = "?") {
  std::string given = attribute + "=\"" + value + "\"";
  if (element == "constraint" && attribute != "upper")
    given += " upper=\"1\"";  // what is complained of before unknown attributes
  if ((element == "let" || element == "measure") && attribute != "name") given += " name=\"x\"";
  if (element == "observe" && attribute == "angle") given += " qpos=\"all\"";
  const std::string alone = "<" + element + " " + given + "/>", cost = "<cost ctrl=\"all\"/>";
  try {
    if (element == "task") support::LoadZooTask(cost, "horizon=\"0.1\" " + given);
    else if (element == "term") support::LoadZooTask("<cost>" + alone + "</cost>");
    else if (element == "observe" || element == "spread") support::LoadZooTask(cost + "<policy>" + alone + "</policy>");
    else if (element == "parameter") support::LoadZooTask(cost + "<gradient>" + alone + "</gradient>");
    else support::LoadZooTask(cost + alone);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(TaskSchema, HasNoAttributeThatATaskHasNot) {
  const std::map<std::string, SchemaElement> schema = ReadSchema();
  ASSERT_EQ(schema.size(), 22u);
  for (const auto& [name, element] : schema) {
    // an attribute that nobody knows is what is complained of first: so an attribute without that complaint is known
    EXPECT_NE(Complaint(name, "nonsense").find("there is no attribute 'nonsense'"), std::string::npos)
        << name << ": " << Complaint(name, "nonsense");
    for (const std::string& attribute : element.attributes) {
      if (name == "task" && (attribute == "model" || attribute == "horizon")) continue;  // given already
      const std::string complaint = Complaint(name, attribute);
      EXPECT_EQ(complaint.find("there is no attribute"), std::string::npos) << name << ": " << complaint;
      EXPECT_EQ(complaint.find("there is no such element"), std::string::npos) << name << ": " << complaint;
    }
  }
}

TEST(TaskSchema, FlagsAreTrueOrFalse) {
  int flags = 0;
  for (const auto& [name, element] : ReadSchema()) {
    for (const std::string& flag : element.flags) {
      const std::string refused = flag + " is '1', expected true or false", number = Complaint(name, flag, "1");
      EXPECT_NE(number.find(refused), std::string::npos) << name << ": " << number;
      EXPECT_EQ(Complaint(name, flag, "false").find(flag + " is"), std::string::npos) << name;
      flags++;
    }
  }
  EXPECT_GE(flags, 10);
}

void ExpectInSchema(const std::map<std::string, SchemaElement>& schema, const pugi::xml_node& node,
                    const std::string& file) {
  const SchemaElement& element = schema.at(node.name());
  for (const pugi::xml_attribute attribute : node.attributes()) {
    EXPECT_EQ(element.attributes.count(attribute.name()), 1u) << file << ": " << node.name() << " " << attribute.name();
  }
  for (const pugi::xml_node child : node.children()) {
    if (child.type() != pugi::node_element) continue;
    ASSERT_EQ(element.children.count(child.name()), 1u) << file << ": " << child.name();
    ExpectInSchema(schema, child, file);
  }
}

TEST(TaskSchema, HasWhatTheTaskFilesUse) {
  const std::map<std::string, SchemaElement> schema = ReadSchema();
  int tasks = 0;
  for (const char* folder : {"/models", "/examples"}) {
    for (const std::string& file : support::TaskFiles(kRoot + folder)) {
      pugi::xml_document document;
      ASSERT_TRUE(document.load_file(file.c_str())) << file;
      ExpectInSchema(schema, document.document_element(), file);
      tasks++;
    }
  }
  EXPECT_GT(tasks, 20);
}

}  // namespace
}  // namespace costate
