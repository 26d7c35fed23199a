// State of the broker for its successor, on the plugin's tmpfs: the identity of the fabric, and the
// pod of each peer id.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "cni/node/broker/broker_book.h"
#include "cni/plugin/plugin_error.h"

namespace fairlead::cni::node {

struct BrokerRecord {
  FabricId fabric;
  std::vector<BrokerBook::Ownership> owners;
  friend bool operator==(const BrokerRecord&, const BrokerRecord&) = default;
};

std::string to_json_text(const BrokerRecord& record);
// The error describes the mistake in the text.
Outcome<BrokerRecord> parse_broker_record(std::string_view text);

// Returns a new record with a random fabric if the file is missing or damaged.
BrokerRecord load_broker_record(const std::string& run_dir);
Outcome<void> store_broker_record(const std::string& run_dir, const BrokerRecord& record);

}  // namespace fairlead::cni::node
