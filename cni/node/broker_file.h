// What a broker leaves to the one that comes after it, on the plugin's tmpfs: the identity of the
// fabric, and which pod each peer id belongs to.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "cni/node/broker_book.h"
#include "cni/plugin_error.h"

namespace fairlead::cni::node {

struct BrokerRecord {
  FabricId fabric;
  std::vector<BrokerBook::Ownership> owners;
  friend bool operator==(const BrokerRecord&, const BrokerRecord&) = default;
};

std::string to_json_text(const BrokerRecord& record);
// The error says what is wrong with the text.
Outcome<BrokerRecord> parse_broker_record(std::string_view text);

// A new one, of a random fabric, when there is none or it is damaged.
BrokerRecord load_broker_record(const std::string& run_dir);
Outcome<void> store_broker_record(const std::string& run_dir, const BrokerRecord& record);

}  // namespace fairlead::cni::node
