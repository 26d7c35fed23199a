{{- /* A validation of the policy about RNICs: an expression, and the field that a refusal names. */ -}}
{{- define "fairlead.rnicValidation" -}}
- expression: >-
    {{ .holds | replace "\n" " " }}
  messageExpression: >-
    variables.who + {{ .field }}
  reason: Forbidden
{{- end -}}

{{- /* True for a variable `e` that the injection writes, by this version's settings and any annotations of a pod. */ -}}
{{- define "fairlead.envCheck" -}}
{{- $checks := dict }}
{{- range include "fairlead.annotationChecks" . | fromJsonArray }}{{ $_ := set $checks (index . 0) (index . 1) }}{{ end -}}
{{- $s := include "fairlead.settings" . | fromJson -}}
{{- range $name, $annotation := dict "FAIRLEAD_FALLBACK" "fallback" "FAIRLEAD_LOG_LEVEL" "log-level" "FAIRLEAD_LOG_FORMAT" "log-format"
      "FAIRLEAD_DRAIN_TIMEOUT" "shutdown-grace-period" "SMC_PNET_ID" "pnet-id" "FAIRLEAD_BUFFERS_SIZE" "buffer-size"
      "FAIRLEAD_SMC_MAX_CONNECTIONS_PER_GROUP" "max-conns-per-group" "FAIRLEAD_SMC_MAX_LINKS" "max-links"
      "FAIRLEAD_SMC_TRAFFIC_CLASS" "traffic-class" "FAIRLEAD_SMC_SERVICE_LEVEL" "service-level" "FAIRLEAD_SMC_PATH_MTU" "path-mtu"
      "FAIRLEAD_SMC_ACK_TIMEOUT" "ack-timeout" "FAIRLEAD_SMC_RETRY_COUNT" "retry-count" "FAIRLEAD_SMC_RNR_RETRY" "rnr-retry" -}}
(e.name == '{{ $name }}' && 'value' in e && e.size() == 2 && [e.value].all(v, {{ index $checks $annotation }})) || {{ end -}}
(e.name == 'FAIRLEAD_ADMIN_LISTEN' && 'value' in e && e.size() == 2 && e.value.startsWith('[::]:') && [e.value.substring(5)].all(v, {{ index $checks "admin-port" }}))
|| (e.name == 'FAIRLEAD_CONCURRENCY' && 'value' in e && e.size() == 2 && e.value.matches(r'^[0-9]{1,3}$'))
|| (e.name == 'FAIRLEAD_MEMORY_LIMIT' && 'value' in e && e.size() == 2 && e.value.matches(r'^[1-9][0-9]{0,17}$'))
|| (e.name == 'FAIRLEAD_CLIENT_ADDRESS' && 'value' in e && e.size() == 2 && e.value == 'off')
{{- range $s.env }} || (e.name == {{ squote .name }} && e.all(k, k in ['name', 'value']) && ('value' in e ? e.value : '') == {{ .value | replace "\\" "\\\\" | replace "'" "\\'" | squote }}){{ end }}
{{- range .Values.node.rnicEnv }} || e.name == {{ squote . }}{{ end }}
{{- end -}}
