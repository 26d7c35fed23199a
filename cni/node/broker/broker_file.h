// State of the broker for its successor, on the plugin's tmpfs: the identity of the fabric, and the
// pod of each peer id.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
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

// The record of this broker.
class BrokerFile {
 public:
  explicit BrokerFile(std::string run_dir) : run_dir_(std::move(run_dir)) {}
  // Takes over from the broker before, and writes the file. The fabric is new if the file is
  // missing or damaged. Errors: kState if it cannot be written.
  Outcome<void> take_over(BrokerBook& book);
  // Writes the owners of ids if they have changed. Logs the error, once for the same.
  void remember(const BrokerBook& book);
  FabricId fabric() const { return fabric_; }

 private:
  BrokerRecord load() const;
  Outcome<void> store(const BrokerRecord& record) const;

  std::string run_dir_;
  FabricId fabric_;
  std::uint64_t changes_ = 0;  // those of the book that are in the file
  std::string trouble_;        // why it could not be written, the last time
};

}  // namespace fairlead::cni::node
