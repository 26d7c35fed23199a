// Records the output of every link group in a test. The transcript of each test is a section of the
// golden file transcripts/SUITE.txt: LLC messages byte by byte, actions for the owner, events.
#pragma once

#include <optional>

#include "smc/link_group.h"

namespace fairlead::smc {

// A link group whose output is recorded where it is polled, the rest when it is destroyed.
class RecordedGroup : public LinkGroup {
 public:
  using LinkGroup::LinkGroup;
  RecordedGroup(RecordedGroup&&) = default;
  ~RecordedGroup();

  std::optional<LinkTask> poll_task(TimePoint now);

  // Instead of that of LinkGroup.
  struct Output {
    RecordedGroup& group;
    std::optional<LlcToSend> poll_llc();
    std::optional<GroupEvent> poll_event();
  };
  Output output() { return {*this}; }
};

}  // namespace fairlead::smc
