// The sessions of one worker in its LastingRecord: which of them may have moved bytes since they
// were recorded, and recording them before the worker sleeps. For the worker's thread.
#pragma once

#include <cstddef>
#include <vector>

#include "base/time.h"
#include "relay/worker/lasting_record.h"

namespace fairlead::relay {

class Session;

class LastingSessions {
 public:
  // After so long they are recorded although the thread does not sleep.
  static constexpr Duration kIntervalMax = std::chrono::milliseconds(10);

  // `record` outlives it.
  explicit LastingSessions(LastingRecord& record) : record_(record) {}

  LastingRecord& record() { return record_; }
  // It may move bytes from now on.
  void touch(Session& session);
  // It has ended.
  void forget(Session& session);
  bool due(TimePoint now) const { return now - recorded_ >= kIntervalMax; }
  // After turns, when the streams have done what they put off.
  void record_rest(TimePoint now);

 private:
  LastingRecord& record_;
  std::vector<Session*> touched_;  // each knows its place
  TimePoint recorded_{};
};

}  // namespace fairlead::relay
