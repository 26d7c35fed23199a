// Goal: scripts that read the admin API find their keys. Method: the paths of all keys in the
// answers of a canned proxy, with the type of each value, are a golden file.
#include <set>

#include "golden.h"
#include "unit/admin/admin_server_fixture.h"

namespace fairlead::admin {
namespace {

void add_keys(const json& value, const std::string& path, std::set<std::string>& keys) {
  if (value.is_object()) {
    for (const auto& [key, inner] : value.items()) add_keys(inner, path + "." + key, keys);
  } else if (value.is_array()) {
    for (const json& inner : value) add_keys(inner, path + "[]", keys);
  } else {
    keys.insert(path + " " + (value.is_number() ? "number" : value.type_name()));
  }
}

TEST_F(AdminServerTest, KeysOfAnswers) {
  std::string text;
  for (const char* target :
       {"/stats?format=json", "/connections", "/linkgroups", "/links", "/devices", "/fallbacks",
        "/why?peer=10.1.2.7:8080", "/doctor", "/logging"}) {
    std::set<std::string> keys;
    add_keys(get_json(target), "", keys);
    text += std::string("GET ") + target + "\n";
    for (const std::string& key : keys) text += key + "\n";
  }
  EXPECT_TRUE(golden::matches(text, FAIRLEAD_SOURCE_DIR "/tests/unit/admin/keys.txt"));
}

}  // namespace
}  // namespace fairlead::admin
