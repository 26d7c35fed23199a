// The sessions of one worker in its LastingRecord: which of them may have moved bytes since they
// were recorded, and recording them before the worker sleeps. For the worker's thread.
#pragma once

#include <cstddef>
#include <vector>

#include "base/time.h"
#include "relay/lasting_record.h"

namespace fairlead::relay {

class Session;

class LastingSessions {
 public:
  // Sessions that wait to be recorded although the thread does not sleep.
  static constexpr std::size_t kTouchedMax = 4096;

  // `record` outlives it.
  explicit LastingSessions(LastingRecord& record) : record_(record) {}

  LastingRecord& record() { return record_; }
  // It may move bytes from now on.
  void touch(Session& session);
  // It has ended.
  void forget(Session& session);
  bool many() const { return touched_.size() >= kTouchedMax; }
  // After turns, when the streams have done what they put off.
  void record_rest(TimePoint now);

 private:
  LastingRecord& record_;
  std::vector<Session*> touched_;  // each knows its place
};

}  // namespace fairlead::relay
