// Checks of annotation values that have no row in base/pod_settings.h: a function for each kind of
// value. Pure.
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
bool is_rule_list(std::string_view value);  // "10.0.0.0/8 port 5432,port 22"
bool is_cpu(std::string_view value);
bool is_memory(std::string_view value);
bool is_memory_limit(std::string_view value);
bool is_buffer_size(std::string_view value);
bool is_grace_period(std::string_view value);
bool is_admin_port(std::string_view value);
bool is_image(std::string_view value);
bool is_rnic_resource(std::string_view value);        // "none" or a resource name
bool is_rnic_claim_template(std::string_view value);  // "none" or the name of an object

}  // namespace fairlead::injector
