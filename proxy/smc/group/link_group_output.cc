#include "smc/group/link_group_output.h"

#include <array>
#include <utility>

namespace fairlead::smc {

void LinkGroupOutput::send(LinkIndex link, const wire::LlcBody& body) {
  if (llc_.full()) return;
  std::array<std::byte, wire::kLlcBytesMax> bytes;
  const std::size_t count = wire::encode(wire::LlcMessage{version_, body}, bytes);
  llc_.push({link, std::vector<std::byte>(bytes.begin(),
                                          bytes.begin() + static_cast<std::ptrdiff_t>(count))});
}

void LinkGroupOutput::emit(const GroupEvent& event) {
  if (events_.room() <= 1 && event.kind != GroupEvent::Kind::kTerminated) return;
  events_.push(event);
}

}  // namespace fairlead::smc
