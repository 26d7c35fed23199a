{{- define "fairlead.name" -}}fairlead{{- end -}}

{{- define "fairlead.labels" -}}
app.kubernetes.io/name: fairlead
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- define "fairlead.selector" -}}
app.kubernetes.io/name: fairlead
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "fairlead.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "fairlead.injector" -}}{{ .Release.Name }}-injector{{- end -}}

{{- /* Names of cluster-wide objects contain the namespace, so that two releases do not conflict. */ -}}
{{- define "fairlead.clusterName" -}}{{ .Release.Namespace }}-{{ .Release.Name }}{{- end -}}

{{- define "fairlead.logLevel" -}}{{ if eq .Values.profile "lab" }}debug{{ else }}{{ .level }}{{ end }}{{- end -}}

{{- /* settings.json of the injector; the policy is rendered from the same values. */ -}}
{{- define "fairlead.settings" -}}
{{- $p := .Values.proxy -}}
{{- with $p.rnicClaimTemplate -}}
{{- if $p.rnicResource }}{{ fail (printf "proxy.rnicClaimTemplate: \"%s\" is not allowed with proxy.rnicResource: \"%s\"; allowed: one of them" . $p.rnicResource) }}{{ end -}}
{{- if semverCompare "<1.34.0-0" $.Capabilities.KubeVersion.Version }}{{ fail (printf "proxy.rnicClaimTemplate: \"%s\" needs resource.k8s.io/v1 of Kubernetes 1.34, and the cluster has %s; allowed: \"\"" . $.Capabilities.KubeVersion.Version) }}{{ end -}}
{{- end -}}
{{- $env := list -}}
{{- /* A value may be null, by --set or --reuse-values: then the proxy's default holds. */ -}}
{{- $smc := default dict $p.smc -}}
{{- with $smc.gidSubnets }}{{ $env = append $env (dict "name" "FAIRLEAD_SMC_GID_SUBNETS" "value" (toJson .)) }}{{ end -}}
{{- with default "auto" $smc.gidIndex }}{{ if ne . "auto" }}{{ $env = append $env (dict "name" "FAIRLEAD_SMC_GID_INDEX" "value" .) }}{{ end }}{{ end -}}
{{- with default "auto" $smc.gidType }}{{ if ne . "auto" }}{{ $env = append $env (dict "name" "FAIRLEAD_SMC_GID_TYPE" "value" .) }}{{ end }}{{ end -}}
{{- if $smc.trustedFabric }}{{ $env = append $env (dict "name" "FAIRLEAD_SMC_TRUSTED_FABRIC" "value" "true") }}{{ end -}}
{{- with default "auto" $smc.version | toString }}{{ if ne . "auto" }}{{ $env = append $env (dict "name" "FAIRLEAD_SMC_VERSION" "value" .) }}{{ end }}{{ end -}}
{{- range $p.env }}{{ $env = append $env . }}{{ end -}}
{{- $settings := dict "version" .Chart.AppVersion "revision" $p.revision "image" (include "fairlead.image" .)
    "imagePullPolicy" .Values.image.pullPolicy "concurrency" (int $p.concurrency)
    "adminPort" (int $p.adminPort) "clientAddress" (default "enabled" $p.clientAddress)
    "sharedMemory" (default "disabled" $p.sharedMemory) "seccompProfile" $p.seccompProfile "shutdownGracePeriod" $p.shutdownGracePeriod
    "cpuRequest" $p.cpuRequest "memoryRequest" $p.memoryRequest "cpuLimit" $p.cpuLimit
    "memoryLimit" $p.memoryLimit "rnicResource" $p.rnicResource "rnicClaimTemplate" $p.rnicClaimTemplate "memlock" $p.memlock
    "pnetId" $p.pnetId "smc" (omit $smc "gidSubnets" "gidIndex" "gidType" "trustedFabric" "version") "env" $env -}}
{{- range .Files.Get "files/settings.json" | fromJsonArray }}{{ if and .annotation .value (not (hasPrefix "smc." .value)) }}
{{- $given := index $p .value -}}
{{- $_ := set $settings .value (kindIs "invalid" $given | ternary .default $given) -}}
{{- end }}{{ end -}}
{{- $_ := set $settings "logLevel" (include "fairlead.logLevel" (dict "Values" .Values "level" $settings.logLevel)) -}}
{{- toPrettyJson $settings -}}
{{- end -}}

{{- define "fairlead.podSecurity" -}}
runAsNonRoot: true
runAsUser: 2201
runAsGroup: 2201
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- /* Seccomp profile of the sidecar, in CEL. */ -}}
{{- define "fairlead.sidecarSeccomp" -}}
{{- if eq .Values.proxy.seccompProfile "Localhost" -}}
{'type': 'Localhost', 'localhostProfile': 'fairlead/fairlead-proxy.json'}
{{- else -}}
{'type': 'RuntimeDefault'}
{{- end -}}
{{- end -}}

{{- define "fairlead.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{- define "fairlead.excludedNamespaces" -}}
{{ concat (list "kube-system") .Values.injector.excludedNamespaces | uniq | toJson }}
{{- end -}}

{{- /* Annotations of a hook with a weight; its objects are deleted with the uninstallation. */ -}}
{{- define "fairlead.uninstallHook" -}}
helm.sh/hook: pre-delete
helm.sh/hook-weight: {{ . | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded,hook-failed
{{- end -}}

{{- /* Refuses pools that can share a node: two agents on one node would use the same port and files. Two pools are apart
       if they select different values of one label. */ -}}
{{- define "fairlead.checkPools" -}}
{{- $pools := .Values.nodePools -}}
{{- range $i, $one := $pools }}{{ range $j, $other := $pools }}
{{- if lt $i $j }}
{{- if eq $one.name $other.name }}{{ fail (printf "nodePools[%d].name: \"%s\" is the name of nodePools[%d], too; allowed: different names" $j $other.name $i) }}{{ end }}
{{- $apart := dict }}
{{- range $key, $value := $one.nodeSelector }}
{{- if and (hasKey ($other.nodeSelector | default dict) $key) (ne $value (index $other.nodeSelector $key)) }}{{ $_ := set $apart "yes" true }}{{ end }}
{{- end }}
{{- if not $apart.yes }}{{ fail (printf "nodePools[%d].nodeSelector: pool \"%s\" can share a node with pool \"%s\"; allowed: another value of a label that both select" $j $other.name $one.name) }}{{ end }}
{{- end }}
{{- end }}{{ end }}
{{- end -}}

{{- define "fairlead.reportNamespace" -}}
{{ .Values.node.reportNamespace | default (printf "%s-reports" (include "fairlead.clusterName" .)) }}
{{- end -}}

{{- /* "true" if an agent asks the API server for pods: by wish, or because a pool does not use the runtime's interface. */ -}}
{{- define "fairlead.listsPods" -}}
{{- $lists := eq (toString .Values.node.repair) "api" -}}
{{- if .Values.node.repair }}{{ range .Values.nodePools }}{{ if ne (.rnicAccess | default $.Values.node.rnicAccess) "nri" }}{{ $lists = true }}{{ end }}{{ end }}{{ end -}}
{{ $lists }}
{{- end -}}
