{{- /*
Allowed values of annotations, in CEL over `v`, the value. Those of files/settings.json come from proxy/base/pod_settings.h, the others
are those of injector/annotations.cc, and a test compares both over the same values. Each item lists name, expression and allowed values.
*/ -}}
{{- define "fairlead.annotationChecks" -}}
{{- $ports := "v.split(',').size() <= 64 && v.split(',').all(e, e.matches(r'^[1-9][0-9]{0,4}(-[1-9][0-9]{0,4})?$') && e.split('-').all(n, int(n) <= 65535) && int(e.split('-')[0]) <= int(e.split('-')[e.split('-').size() - 1]))" -}}
{{- $portsAllowed := "1 to 64 ports or ranges from 1 to 65535 between commas, as in 5432,8000-8010" -}}
{{- $cidrs := "v.split(',').size() <= 64 && v.split(',').all(e, e.contains('/') && isCIDR(e) && string(cidr(e)) == string(cidr(e).masked()))" -}}
{{- $cidrsAllowed := "1 to 64 blocks between commas, without bits behind the prefix, as in 10.0.0.0/8,fd00::/8" -}}
{{- $rules := "v.split(',').size() <= 64 && v.split(',').all(e, e.matches(r'^([0-9a-f.:]+/[0-9]{1,3}|([0-9a-f.:]+/[0-9]{1,3} )?port( [1-9][0-9]{0,4}){1,64})$') && e.split(' ').all(w, w == 'port' || (w.contains('/') ? isCIDR(w) && string(cidr(w)) == w && string(cidr(w).masked()) == w : int(w) <= 65535)))" -}}
{{- $rulesAllowed := "1 to 64 rules between commas: a block of addresses, ports, or both, as in 10.0.0.0/8 port 5432 6432,port 22" -}}
{{- $cpu := "(v.matches(r'^(0|[1-9][0-9]{0,14})m$') || v.matches(r'^(0|[1-9][0-9]{0,14})([.][0-9]{1,3})?$')) && quantity(v).isGreaterThan(quantity('0'))" -}}
{{- $cpuAllowed := "a CPU quantity above 0, as in 50m or 0.5" -}}
{{- $memory := "v.matches(r'^[1-9][0-9]{0,14}[KMG]i$') && quantity(v).isLessThan(quantity('1Ei'))" -}}
{{- $checks := list
  (list "inject" "v in ['enabled', 'disabled']" "enabled or disabled")
  (list "allow-mesh" "v in ['true', 'false']" "true or false")
  (list "image" "v.matches(r'^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,254}$')" "an image reference of at most 255 characters")
  (list "rnic-resource" "v == 'none' || v.matches(r'^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$')" "none, or the name of an extended resource, as in rdma/hca_shared")
  (list "rnic-claim-template" "v.matches(r'^[a-z0-9]([a-z0-9-]*[a-z0-9])?([.][a-z0-9]([a-z0-9-]*[a-z0-9])?)*$') && v.size() <= 253" "none, or the name of a ResourceClaimTemplate, as in rdma-nic")
  (list "proxy-cpu-request" $cpu $cpuAllowed)
  (list "proxy-cpu-limit" $cpu $cpuAllowed)
  (list "proxy-memory-request" $memory "a whole number with Ki, Mi or Gi, as in 64Mi")
  (list "proxy-memory-limit" (printf "%s && quantity(v).compareTo(quantity('32Mi')) >= 0 && quantity(v).compareTo(quantity('2048Gi')) <= 0" $memory) "a whole number with Ki, Mi or Gi, from 32Mi to 2048Gi")
  (list "admin-port" "v.matches(r'^[1-9][0-9]{3,4}$') && int(v) >= 1024 && int(v) <= 65535 && !(v in ['4540', '4543'])" "a port from 1024 to 65535, not 4540 and not 4543")
  (list "smc-exclude" $rules $rulesAllowed)
  (list "smc-require" $rules $rulesAllowed)
  (list "pnet-id" "v.matches(r'^[A-Za-z0-9]{1,16}$')" "1 to 16 of A-Z, a-z and 0-9")
  (list "client-address" "v in ['enabled', 'disabled']" "enabled or disabled")
  (list "shared-memory" "v in ['enabled', 'disabled']" "enabled or disabled")
  (list "buffer-size" "v.matches(r'^((16|32|64|128|256|512)KiB|(1|2|4|8|16|32|64|128|256|512)MiB)$')" "16KiB, 32KiB, 64KiB and so on, doubling up to 512MiB")
  (list "shutdown-grace-period" "v.matches(r'^(0|[1-9][0-9]{0,3})[sm]$') && int(v.substring(0, v.size() - 1)) <= (v.endsWith('s') ? 3600 : 60)" "a whole number with s or m, at most 3600s or 60m")
  (list "skip-inbound-ports" $ports $portsAllowed)
  (list "skip-outbound-ports" $ports $portsAllowed)
  (list "skip-subnets" $cidrs $cidrsAllowed)
  (list "include-inbound-ports" $ports $portsAllowed)
  (list "include-cidrs" $cidrs $cidrsAllowed)
  (list "rnic-access" "v == 'none'" "none") -}}
{{- range .Files.Get "files/settings.json" | fromJsonArray }}{{ if .annotation }}{{ $checks = append $checks (list .annotation .check .allowed) }}{{ end }}{{ end -}}
{{- toJson $checks -}}
{{- end -}}

{{- /* Value of the pod's annotation, or else of the settings. */}}
{{- define "fairlead.wish" -}}variables.a[?'fairlead.io/{{ index . 0 }}'].orValue({{ index . 1 | squote }}){{- end }}
{{- /* True for a pod that has no sidecar of the injection yet, and for one in front of whose sidecar others have put containers.
       They would have no network, because the redirect is there from the beginning, and so the sidecar would never start. */ -}}
{{- define "fairlead.notFirstYet" -}}
!(has(object.metadata.annotations) && 'fairlead.io/status' in object.metadata.annotations)
|| (has(object.spec.initContainers) && object.spec.initContainers[0].name != 'fairlead-proxy'
&& object.spec.initContainers.exists(c, c.name == 'fairlead-proxy'))
{{- end }}

{{- define "fairlead.match" -}}
resourceRules:
  - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods], scope: Namespaced}
namespaceSelector:
  matchExpressions:
    - key: kubernetes.io/metadata.name
      operator: NotIn
      values: {{ include "fairlead.excludedNamespaces" . }}
{{- end }}
