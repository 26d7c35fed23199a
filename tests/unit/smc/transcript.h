// Records the output of every link group in a test: LLC messages byte by byte, actions for the
// owner, events. The golden file transcripts.txt has a section, [SUITE.TEST], for each test whose
// transcript is kept whole, and a line with a hash for each other one. To keep one more, add its
// section without text, and write the file.
#pragma once

#include <optional>

#include "smc/group/link_group.h"

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
