// Checks of annotation values: a function for each kind of value. Pure.
#pragma once

#include <string_view>

namespace fairlead::injector {

bool is_enabled_or_disabled(std::string_view value);
bool is_seccomp_profile(std::string_view value);
bool is_boolean(std::string_view value);
bool is_port_list(std::string_view value);  // "80", "80,443", "8000-8010"
bool is_cidr_list(std::string_view value);
bool is_pnet_id(std::string_view value);
bool is_rnic_access(std::string_view value);
bool is_fallback(std::string_view value);
bool is_rule_list(std::string_view value);  // "10.0.0.0/8 port 5432,port 22"
bool is_log_level(std::string_view value);
bool is_log_format(std::string_view value);
bool is_cpu(std::string_view value);
bool is_memory(std::string_view value);
bool is_memory_limit(std::string_view value);
bool is_buffer_size(std::string_view value);
bool is_connections_per_group(std::string_view value);
bool is_link_count(std::string_view value);
bool is_defer_bytes(std::string_view value);
bool is_traffic_class(std::string_view value);
bool is_service_level(std::string_view value);
bool is_path_mtu(std::string_view value);
bool is_ack_timeout(std::string_view value);
bool is_retry_count(std::string_view value);  // of either kind
bool is_grace_period(std::string_view value);
bool is_admin_port(std::string_view value);
bool is_image(std::string_view value);
bool is_rnic_resource(std::string_view value);        // "none" or a resource name
bool is_rnic_claim_template(std::string_view value);  // "none" or the name of an object

}  // namespace fairlead::injector
