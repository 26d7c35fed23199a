#include "wire/clc.h"
#include "wire/clc_frame.h"

namespace fairlead::wire {
namespace {

constexpr std::size_t kFixedBytes = 40;
constexpr std::size_t kExtensionBlockBytes = 40;
constexpr std::size_t kVendorOffset = 12;  // in the extension block
constexpr std::size_t kIpAreaOffsetMax = kExtensionBlockBytes;
constexpr std::size_t kIpAreaHeadBytes = 8;
constexpr std::size_t kIpv6PrefixBytes = 17;
constexpr std::size_t kV2OffsetBase = 52;  // what the v2 extension offset counts from
constexpr std::size_t kV2OffsetMin = kFixedBytes + kExtensionBlockBytes - kV2OffsetBase;
constexpr std::size_t kV2OffsetMax =
    kV2OffsetMin + kIpAreaHeadBytes + kIpv6PrefixBytes * kIpv6PrefixesMax;
constexpr std::size_t kV2ExtensionBytes = 40;
constexpr std::size_t kEidBytes = 32;
constexpr std::size_t kSmcdExtensionBytes = 48;
constexpr std::size_t kIsmEntryBytes = 10;
constexpr std::size_t kIsmEntriesMax = 8;

static_assert(kV2OffsetMax == 172);
static_assert(kV2OffsetBase + kV2OffsetMax + kV2ExtensionBytes + kEidBytes * kUeidsMax +
                  kSmcdExtensionBytes + kIsmEntryBytes * kIsmEntriesMax + kClcTrailerBytes ==
              kProposalBytesMax);

constexpr bool has_smcd(ClcPath path) { return path == ClcPath::kSmcd || path == ClcPath::kBoth; }

constexpr std::size_t ip_area_bytes(const IpArea& area) {
  return kIpAreaHeadBytes + kIpv6PrefixBytes * area.ipv6.count;
}

// The message without its trailer, as a place to look up offsets in.
Reader reader_at(std::span<const std::byte> message, std::size_t offset) {
  Reader in(message.first(message.size() - kClcTrailerBytes));
  in.skip(offset);
  return in;
}

Result<IpArea> decode_ip_area(Reader in) {
  IpArea area;
  area.ipv4_network = in.bytes<4>();
  area.ipv4_length_bits = in.u8();
  in.skip(2);
  const std::size_t count = in.u8();
  if (count > kIpv6PrefixesMax) return Error{Errc::kMalformed, "IPv6 prefix count"};
  for (std::size_t i = 0; i < count; ++i) {
    Ipv6Prefix prefix;
    prefix.network = in.bytes<16>();
    prefix.length_bits = in.u8();
    area.ipv6.push(prefix);
  }
  if (!in.ok()) return Error{Errc::kMalformed, "IP area"};
  return area;
}

struct V2Extension {
  ProposalV2 value;
  std::size_t smcd_bytes = 0;  // of the SMC-D parts that follow, if the selector announces them
};

Result<V2Extension> decode_v2_extension(Reader in, bool smcd) {
  V2Extension extension;
  ProposalV2& v2 = extension.value;
  const std::size_t ueid_count = in.u8();
  const std::size_t ism_count = in.u8();
  in.skip(1);
  v2.release = static_cast<std::uint8_t>(in.u8() >> 4U);
  in.skip(4);
  v2.gid.bytes = in.bytes<16>();
  v2.max_connections = in.u8();
  v2.max_links = in.u8();
  v2.feature_mask = in.u16();
  in.skip(12);
  if (ueid_count > kUeidsMax) return Error{Errc::kMalformed, "UEID count"};
  // Without SMC-D nothing is counted by it.
  if (smcd && ism_count > kIsmEntriesMax) return Error{Errc::kMalformed, "ISM GID count"};
  for (std::size_t i = 0; i < ueid_count; ++i) v2.ueids.push(Eid{in.chars<kEidBytes>()});
  if (!in.ok()) return Error{Errc::kMalformed, "v2 extension"};
  extension.smcd_bytes = kSmcdExtensionBytes + kIsmEntryBytes * ism_count;
  return extension;
}

// From the extension block.
VendorArea decode_vendor(std::span<const std::byte> message) {
  Reader block = reader_at(message, kFixedBytes + kVendorOffset);
  VendorArea vendor;
  vendor.oui = block.bytes<3>();
  vendor.options = block.bytes<5>();
  return vendor;
}

// The extension block and all that follows it. Adds what it finds to `length`.
Result<void> decode_version_2(std::span<const std::byte> message, Proposal& proposal,
                              std::size_t& length) {
  Reader block = reader_at(message, kFixedBytes);
  block.skip(10);  // ISM GID and CHID
  const std::size_t v2_offset = block.u16();
  proposal.vendor = decode_vendor(message);
  length += kExtensionBlockBytes;
  if (proposal.v2_path == ClcPath::kNone) return {};
  if (v2_offset < kV2OffsetMin || v2_offset > kV2OffsetMax)
    return Error{Errc::kMalformed, "v2 extension offset"};
  const V2Extension extension = SMC_TRY(decode_v2_extension(
      reader_at(message, kV2OffsetBase + v2_offset), has_smcd(proposal.v2_path)));
  proposal.v2 = extension.value;
  length += kV2ExtensionBytes + kEidBytes * extension.value.ueids.count;
  if (has_smcd(proposal.v2_path)) length += extension.smcd_bytes;
  return {};
}

void encode_ip_area(Writer& out, const IpArea& area) {
  out.bytes(area.ipv4_network);
  out.u8(area.ipv4_length_bits);
  out.zeroes(2);
  out.u8(static_cast<std::uint8_t>(area.ipv6.count));
  for (const Ipv6Prefix& prefix : area.ipv6.view()) {
    out.bytes(prefix.network);
    out.u8(prefix.length_bits);
  }
}

void encode_extension_block(Writer& out, const Proposal& proposal) {
  const std::size_t ip_bytes = proposal.ip_area ? ip_area_bytes(*proposal.ip_area) : 0;
  out.zeroes(10);
  out.u16(static_cast<std::uint16_t>(proposal.v2 ? kV2OffsetMin + ip_bytes : 0));
  out.bytes(proposal.vendor.oui);
  out.bytes(proposal.vendor.options);
  out.zeroes(20);
}

void encode_v2_extension(Writer& out, const ProposalV2& v2) {
  SMC_ASSERT(v2.release <= 0x0f, v2.release);
  out.u8(static_cast<std::uint8_t>(v2.ueids.count));
  out.zeroes(2);
  out.u8(static_cast<std::uint8_t>(unsigned{v2.release} << 4U));
  out.zeroes(4);
  out.bytes(v2.gid.bytes);
  out.u8(v2.max_connections);
  out.u8(v2.max_links);
  out.u16(v2.feature_mask);
  out.zeroes(12);
  for (const Eid& eid : v2.ueids.view()) out.chars(eid.bytes);
}

// With the extension block in version 1 too, as Linux writes it: dissectors know no other form.
std::size_t encoded_length(const Proposal& proposal) {
  return kFixedBytes + kExtensionBlockBytes +
         (proposal.ip_area ? ip_area_bytes(*proposal.ip_area) : 0) +
         (proposal.v2 ? kV2ExtensionBytes + kEidBytes * proposal.v2->ueids.count : 0) +
         kClcTrailerBytes;
}

}  // namespace

Result<Proposal> decode_proposal(std::span<const std::byte> message) {
  const ClcFrame frame = SMC_TRY(decode_clc_frame(message, Trailer::kChecked));
  if (frame.header.type != ClcType::kProposal) return Error{Errc::kMalformed, "CLC type"};
  Proposal proposal;
  proposal.version = frame.header.version;
  const bool v1 = proposal.version == 1;
  proposal.v1_path = static_cast<ClcPath>(frame.selector1);
  proposal.v2_path = v1 ? ClcPath::kNone : static_cast<ClcPath>(frame.selector2);
  proposal.had_smcd = has_smcd(proposal.v1_path) || has_smcd(proposal.v2_path);
  if (v1 && proposal.v1_path == ClcPath::kNone) return Error{Errc::kMalformed, "path"};

  Reader in(frame.body);
  proposal.peer_id.bytes = in.bytes<8>();
  proposal.v1_gid.bytes = in.bytes<16>();
  proposal.mac.bytes = in.bytes<6>();
  const std::size_t ip_offset = in.u16();
  if (ip_offset > kIpAreaOffsetMax) return Error{Errc::kMalformed, "IP area offset"};

  std::size_t length = kFixedBytes + (v1 ? ip_offset : 0) + kClcTrailerBytes;
  if (proposal.v1_path != ClcPath::kNone) {
    proposal.ip_area = SMC_TRY(decode_ip_area(reader_at(message, kFixedBytes + ip_offset)));
    length += ip_area_bytes(*proposal.ip_area);
  }
  if (!v1)
    SMC_TRY(decode_version_2(message, proposal, length));
  else if (ip_offset == kExtensionBlockBytes)
    proposal.vendor = decode_vendor(message);
  if (length != message.size()) return Error{Errc::kMalformed, "CLC length"};
  return proposal;
}

Proposal without_smcd(Proposal proposal) {
  const auto reduced = [](ClcPath path) {
    if (path == ClcPath::kBoth) return ClcPath::kSmcr;
    return path == ClcPath::kSmcd ? ClcPath::kNone : path;
  };
  proposal.v2_path = reduced(proposal.v2_path);
  if (proposal.v2_path == ClcPath::kNone) proposal.v2.reset();
  if (proposal.version == 1 && proposal.v1_path == ClcPath::kSmcd) return proposal;
  proposal.v1_path = reduced(proposal.v1_path);
  if (proposal.v1_path == ClcPath::kNone) proposal.ip_area.reset();
  proposal.had_smcd = false;
  return proposal;
}

std::size_t encode(const Proposal& given, std::span<std::byte, kProposalBytesMax> out) {
  SMC_ASSERT(given.ip_area.has_value() == (given.v1_path != ClcPath::kNone));
  SMC_ASSERT(given.v2.has_value() == (given.v2_path != ClcPath::kNone));
  const Proposal proposal = without_smcd(given);
  const bool v1 = proposal.version == 1;
  SMC_ASSERT(!v1 || (proposal.ip_area && !proposal.v2));
  const unsigned selectors = (v1 ? 0U : static_cast<unsigned>(proposal.v2_path) << 2U) |
                             static_cast<unsigned>(proposal.v1_path);
  const std::size_t length = encoded_length(proposal);
  Writer writer(out);
  encode_clc_header(writer, ClcType::kProposal, length, proposal.version, selectors);
  writer.bytes(proposal.peer_id.bytes);
  writer.bytes(proposal.v1_gid.bytes);
  writer.bytes(proposal.mac.bytes);
  writer.u16(proposal.ip_area ? kExtensionBlockBytes : 0);
  encode_extension_block(writer, proposal);
  if (proposal.ip_area) encode_ip_area(writer, *proposal.ip_area);
  if (proposal.v2) encode_v2_extension(writer, *proposal.v2);
  encode_clc_trailer(writer);
  SMC_ASSERT(writer.written() == length, writer.written(), length);
  return length;
}

}  // namespace fairlead::wire
