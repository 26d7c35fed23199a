{{- /* A validation of the policy about RNICs: an expression, and the field that a refusal names. */ -}}
{{- define "fairlead.rnicValidation" -}}
- expression: >-
    {{ .holds | replace "\n" " " }}
  messageExpression: >-
    variables.who + {{ .field }} + '; such a sidecar may have no RNIC'
  reason: Forbidden
{{- end -}}

{{- /* True if the pod gets an RNIC: it has the mark of the injection, and does not renounce RNICs. */ -}}
{{- define "fairlead.asksForRnic" -}}
(has({{ . }}.metadata.annotations) && 'fairlead.io/status' in {{ . }}.metadata.annotations && !('fairlead.io/rnic-access' in {{ . }}.metadata.annotations && {{ . }}.metadata.annotations['fairlead.io/rnic-access'] == 'none'))
{{- end -}}

{{- /* True for an annotation by which a runtime or a plugin of it changes the sidecar: about that container, or about all of a pod. */ -}}
{{- define "fairlead.reachesSidecar" -}}
({{ . }}.matches('[./]fairlead-proxy$') || ({{ . }}.matches('^(devices|mounts|cdi-devices|ulimits)[.](nri[.]|noderesource)|^io[.]kubernetes[.]cri-o[.]Devices|^cdi[.]k8s[.]io/|^run[.]oci[.]handler') && !{{ . }}.matches('/container[.][^./]+$')))
{{- end -}}

{{- define "fairlead.rnicMatch" -}}
matchPolicy: Equivalent
objectSelector: {}
{{- with .Values.node.rnicNamespaces }}
namespaceSelector:
  matchExpressions:
    - {key: kubernetes.io/metadata.name, operator: In, values: {{ toJson . }}}
{{- else }}
namespaceSelector: {}
{{- end }}
{{- end -}}

{{- define "fairlead.annotationCheck" -}}
{{- $name := index . 1 }}{{ range include "fairlead.annotationChecks" (index . 0) | fromJsonArray }}{{ if eq (index . 0) $name }}({{ index . 1 }}){{ end }}{{ end -}}
{{- end -}}

{{- /* True for a variable `e` that the injection writes, by this version's settings and any annotations of a pod. */ -}}
{{- define "fairlead.envCheck" -}}
{{- $checks := dict }}
{{- range include "fairlead.annotationChecks" . | fromJsonArray }}{{ $_ := set $checks (index . 0) (index . 1) }}{{ end -}}
{{- $s := include "fairlead.settings" . | fromJson -}}
{{- $variables := dict "FAIRLEAD_SMC_EXCLUDE" "smc-exclude" "FAIRLEAD_SMC_REQUIRE" "smc-require" "FAIRLEAD_BUFFERS_SIZE" "buffer-size"
      "FAIRLEAD_DRAIN_TIMEOUT" "shutdown-grace-period" "SMC_PNET_ID" "pnet-id" "FAIRLEAD_DEVICES_VERBS_CLAIM" "rnic-claim-template" }}
{{- range .Files.Get "files/settings.json" | fromJsonArray }}{{ if .annotation }}{{ $_ := set $variables .variable .annotation }}{{ end }}{{ end -}}
{{- range $name, $annotation := $variables -}}
(e.name == '{{ $name }}' && 'value' in e && e.size() == 2 && [e.value].all(v, {{ index $checks $annotation }})) || {{ end -}}
(e.name == 'FAIRLEAD_ADMIN_LISTEN' && 'value' in e && e.size() == 2 && e.value.startsWith('[::]:') && [e.value.substring(5)].all(v, {{ index $checks "admin-port" }}))
|| (e.name == 'FAIRLEAD_CONCURRENCY' && 'value' in e && e.size() == 2 && e.value.matches(r'^[0-9]{1,3}$'))
|| (e.name == 'FAIRLEAD_MEMORY_LIMIT' && 'value' in e && e.size() == 2 && e.value.matches(r'^[1-9][0-9]{0,17}$'))
|| (e.name == 'FAIRLEAD_CLIENT_ADDRESS' && 'value' in e && e.size() == 2 && e.value == 'off')
|| (e.name == 'FAIRLEAD_DEVICES_SHM_ENABLED' && 'value' in e && e.size() == 2 && e.value == 'false')
{{- range $s.env }} || (e.name == {{ squote .name }} && e.all(k, k in ['name', 'value']) && ('value' in e ? e.value : '') == {{ .value | replace "\\" "\\\\" | replace "'" "\\'" | squote }}){{ end }}
{{- range .Values.node.rnicEnv }} || e.name == {{ squote . }}{{ end }}
{{- end -}}

{{- /* fairlead-node gives RNICs to the container fairlead-proxy of pods with the annotation fairlead.io/status. Authors of pods
       can write both. So this policy rejects such pods unless each field of the container is one that the injection writes
       (docs/adr/0032). Pods with fairlead.io/rnic-access: none get no RNIC and are not examined. */ -}}
{{- define "fairlead.policy.rnic" -}}
failurePolicy: Fail
matchConstraints:
  resourceRules:
    - apiGroups: [""]
      apiVersions: [v1]
      operations: [CREATE, UPDATE]
      resources: [pods, pods/ephemeralcontainers, pods/resize, pods/status]
      scope: Namespaced
  {{- include "fairlead.rnicMatch" . | nindent 2 }}
matchConditions:
  # The runtime keeps the annotations of the pod's beginning, so removing them later does not give the RNIC back.
  - name: marked
    expression: >-
      {{ include "fairlead.asksForRnic" "object" }} || (request.operation == 'UPDATE' && {{ include "fairlead.asksForRnic" "oldObject" }})
  # Pods that are older than this policy stay changeable in other respects, for example in their finalizers.
  - name: changed
    expression: >-
      request.operation == 'CREATE' || object.spec != oldObject.spec
      || !({{ include "fairlead.asksForRnic" "object" }}) || !({{ include "fairlead.asksForRnic" "oldObject" }})
      || object.metadata.annotations.exists(k, {{ include "fairlead.reachesSidecar" "k" }}
      && !(k in oldObject.metadata.annotations && oldObject.metadata.annotations[k] == object.metadata.annotations[k]))
variables:
  - name: inits
    expression: "has(object.spec.initContainers) ? object.spec.initContainers : []"
  - name: sidecars
    expression: "variables.inits.filter(c, c.name == 'fairlead-proxy')"
  # Without a sidecar, the rules about its fields would be errors. The rule about its number reports that case.
  - name: sidecar
    expression: "variables.sidecars.size() == 1 ? dyn(variables.sidecars[0]) : dyn({})"
  - name: before
    expression: >-
      request.operation == 'CREATE' || !has(oldObject.spec.initContainers) ? []
      : oldObject.spec.initContainers.filter(c, c.name == 'fairlead-proxy').map(c, c.image)
  - name: foreign
    expression: >-
      variables.sidecar.map(k, k).filter(k, !(k in ['name', 'image', 'imagePullPolicy', 'args', 'env', 'ports', 'restartPolicy',
      'startupProbe', 'livenessProbe', 'resources', 'securityContext', 'terminationMessagePolicy', 'terminationMessagePath', 'volumeMounts']))
  - name: env
    expression: "'env' in variables.sidecar ? variables.sidecar.env : []"
  - name: foreignEnv
    expression: >-
      variables.env.size() > 128 ? ['more than 128'] : variables.env.filter(e, !({{ include "fairlead.envCheck" . | replace "\n" " " }})).map(e, e.name)
  - name: mounts
    expression: "'volumeMounts' in variables.sidecar ? variables.sidecar.volumeMounts : []"
  - name: tokens
    expression: >-
      (has(object.spec.volumes) ? object.spec.volumes : []).filter(v, variables.mounts.size() <= 1 && variables.mounts.exists(m, m.name == v.name)
      && dyn(v).all(k, k in ['name', 'projected']) && has(v.projected.sources) && v.projected.sources.size() <= 4
      && (!has(v.projected.defaultMode) || v.projected.defaultMode == 420)
      && v.projected.sources.all(s, dyn(s).size() == 1 && dyn(s).all(k, k in ['serviceAccountToken', 'configMap', 'downwardAPI'])
      && (!has(s.serviceAccountToken) || (s.serviceAccountToken.path == 'token' && !has(s.serviceAccountToken.audience)))
      && (!has(s.configMap) || (has(s.configMap.items) && s.configMap.items.size() == 1 && !has(s.configMap.items[0].mode)
      && [s.configMap.name, s.configMap.items[0].key, s.configMap.items[0].path] in
      [['kube-root-ca.crt', 'ca.crt', 'ca.crt'], ['openshift-service-ca.crt', 'service-ca.crt', 'service-ca.crt']]))
      && (!has(s.downwardAPI) || (has(s.downwardAPI.items) && s.downwardAPI.items.size() == 1
      && s.downwardAPI.items.all(i, i.path == 'namespace' && !has(i.mode) && has(i.fieldRef) && i.fieldRef.fieldPath == 'metadata.namespace'))))).map(v, v.name)
  - name: security
    expression: "'securityContext' in variables.sidecar ? variables.sidecar.securityContext : dyn({})"
  - name: wrongSecurity
    expression: >-
      ['runAsNonRoot', 'runAsUser', 'runAsGroup', 'readOnlyRootFilesystem', 'allowPrivilegeEscalation', 'capabilities', 'seccompProfile']
      .filter(k, !(k in variables.security))
      + variables.security.map(k, k).filter(k, !(
      k in ['runAsNonRoot', 'readOnlyRootFilesystem'] ? variables.security[k] == true
      : k in ['runAsUser', 'runAsGroup'] ? variables.security[k] == 2201
      : k in ['allowPrivilegeEscalation', 'privileged'] ? variables.security[k] == false
      : k == 'capabilities' ? variables.security[k].size() == 1 && 'drop' in variables.security[k] && variables.security[k].drop == ['ALL']
      : k == 'seccompProfile' ? {{ if eq .Values.proxy.seccompProfile "Localhost" -}}
      variables.security[k].size() == 2 && 'type' in variables.security[k] && variables.security[k].type == 'Localhost'
      && 'localhostProfile' in variables.security[k] && variables.security[k].localhostProfile == 'fairlead/fairlead-proxy.json'
      {{- else -}}
      variables.security[k].size() == 1 && 'type' in variables.security[k] && variables.security[k].type == 'RuntimeDefault'
      {{- end }}
      : k == 'procMount' && variables.security[k] == 'Default'))
  - name: groups
    expression: >-
      !has(object.spec.securityContext) ? [] : (has(object.spec.securityContext.supplementalGroups) ? object.spec.securityContext.supplementalGroups : [])
      + (has(object.spec.securityContext.fsGroup) ? [object.spec.securityContext.fsGroup] : [])
  - name: shared
    expression: >-
      ['hostPID', 'hostIPC', 'hostNetwork', 'shareProcessNamespace'].filter(k, k in dyn(object.spec) && dyn(object.spec)[k] == true)
  - name: resources
    expression: "'resources' in variables.sidecar ? variables.sidecar.resources : dyn({})"
  - name: annotations
    expression: "has(object.metadata.annotations) ? dyn(object.metadata.annotations) : dyn({})"
  - name: rnicResource
    expression: >-
      'fairlead.io/rnic-resource' in variables.annotations ? [variables.annotations['fairlead.io/rnic-resource']].filter(v,
      {{ include "fairlead.annotationCheck" (list . "rnic-resource") }} && !v.startsWith('hugepages-')).join('') : {{ squote .Values.proxy.rnicResource }}
  - name: foreignAnnotations
    expression: >-
      variables.annotations.map(k, k).filter(k, {{ include "fairlead.reachesSidecar" "k" }})
      {{- if .Values.proxy.memlock }}.filter(k, k != 'ulimits.nri.containerd.io/container.fairlead-proxy'
      || variables.annotations[k] != ['- type: memlock\n  hard: ' + string(quantity('{{ .Values.proxy.memlock }}').asInteger()) + '\n  soft: ' + string(quantity('{{ .Values.proxy.memlock }}').asInteger()) + '\n'][0])
      {{- end }}
  - name: who
    expression: "request.userInfo.username + ' may not write a pod with fairlead.io/status '"
validations:
  {{- include "fairlead.rnicValidation" (dict "field" "'after its creation, nor remove it, nor change fairlead.io/rnic-access'" "holds"
        (printf "request.operation == 'CREATE' || (%s && %s)" (include "fairlead.asksForRnic" "object") (include "fairlead.asksForRnic" "oldObject"))) | nindent 2 }}
  {{- include "fairlead.rnicValidation" (dict "field" "'without exactly one init container fairlead-proxy'" "holds"
        "variables.sidecars.size() == 1 && !object.spec.containers.exists(c, c.name == 'fairlead-proxy')") | nindent 2 }}
  {{- include "fairlead.rnicValidation" (dict "field" "'whose container fairlead-proxy has fields that the injection does not write: ' + variables.foreign.join(', ')" "holds"
        "variables.foreign.size() == 0") | nindent 2 }}
  {{- include "fairlead.rnicValidation" (dict "field" "'whose container fairlead-proxy has another image than that of the chart and those of node.rnicImages'" "holds"
        (printf "variables.sidecars.all(c, c.image in %s || c.image in variables.before)" (prepend .Values.node.rnicImages (include "fairlead.image" .) | toJson | replace "\"" "'"))) | nindent 2 }}
  {{- include "fairlead.rnicValidation" (dict "field" "'whose container fairlead-proxy has other args than --config /etc/fairlead/pod.yaml'" "holds"
        "'args' in variables.sidecar && variables.sidecar.args == ['--config', '/etc/fairlead/pod.yaml']") | nindent 2 }}
  {{- include "fairlead.rnicValidation" (dict "field" "'whose container fairlead-proxy has another restartPolicy than Always'" "holds"
        "'restartPolicy' in variables.sidecar && variables.sidecar.restartPolicy == 'Always'") | nindent 2 }}
  {{- include "fairlead.rnicValidation" (dict "field" "'whose container fairlead-proxy has variables or values in env that the injection does not write: ' + variables.foreignEnv.join(', ') + '; node.rnicEnv allows names'" "holds"
        "variables.foreignEnv.size() == 0") | nindent 2 }}
  {{- include "fairlead.rnicValidation" (dict "field" "'whose container fairlead-proxy has volumeMounts other than that of the service account'" "holds"
        "variables.mounts.size() <= 1 && variables.mounts.all(m, m.mountPath == '/var/run/secrets/kubernetes.io/serviceaccount' && m.map(k, k).all(k, k in ['name', 'mountPath', 'readOnly']) && 'readOnly' in m && m.readOnly && m.name in variables.tokens)") | nindent 2 }}
  {{- include "fairlead.rnicValidation" (dict "field" "'whose container fairlead-proxy has a securityContext that differs from the injection in ' + variables.wrongSecurity.join(', ')" "holds"
        "variables.wrongSecurity.size() == 0") | nindent 2 }}
  {{- range $probe, $values := dict "startupProbe" (list "/readyz" 1 60) "livenessProbe" (list "/livez" 10 3) }}
  {{- include "fairlead.rnicValidation" (dict "field" (printf "'whose container fairlead-proxy has another %s than that of the injection'" $probe) "holds"
        (printf "'%s' in variables.sidecar && [variables.sidecar.%s].all(p, p.map(k, k).all(k, k in ['httpGet', 'periodSeconds', 'timeoutSeconds', 'failureThreshold', 'successThreshold']) && 'httpGet' in p && p.httpGet.map(k, k).all(k, k in ['path', 'port', 'scheme']) && p.httpGet.path == '%s' && p.httpGet.port == 'fairlead-admin' && (!('scheme' in p.httpGet) || p.httpGet.scheme == 'HTTP') && p.periodSeconds == %d && p.timeoutSeconds == 5 && p.failureThreshold == %d && (!('successThreshold' in p) || p.successThreshold == 1))"
          $probe $probe (index $values 0) (index $values 1) (index $values 2))) | nindent 2 }}
  {{- end }}
  {{- include "fairlead.rnicValidation" (dict "field" "'whose container fairlead-proxy has other ports than fairlead-admin'" "holds"
        "variables.env.size() <= 128 && 'ports' in variables.sidecar && variables.sidecar.ports.size() == 1 && variables.sidecar.ports.all(p, p.map(k, k).all(k, k in ['name', 'containerPort', 'protocol']) && p.name == 'fairlead-admin' && p.protocol == 'TCP' && variables.env.exists(e, e.name == 'FAIRLEAD_ADMIN_LISTEN' && e.value == '[::]:' + string(p.containerPort)))") | nindent 2 }}
  {{- include "fairlead.rnicValidation" (dict "field" "'whose container fairlead-proxy has resources other than cpu, memory, ephemeral-storage, that of fairlead.io/rnic-resource and the claim fairlead-rnic'" "holds"
        "variables.resources.map(k, k).all(k, k == 'claims' ? variables.resources.claims.size() == 1 && variables.resources.claims.all(c, c.name == 'fairlead-rnic' && c.size() == 1) : k in ['requests', 'limits'] && variables.resources[k].all(r, r in ['cpu', 'memory', 'ephemeral-storage'] || r == variables.rnicResource))") | nindent 2 }}
  {{- include "fairlead.rnicValidation" (dict "field" "'whose container fairlead-proxy has a terminationMessage or an imagePullPolicy that the injection does not write'" "holds"
        "'terminationMessagePolicy' in variables.sidecar && variables.sidecar.terminationMessagePolicy == 'FallbackToLogsOnError' && (!('terminationMessagePath' in variables.sidecar) || variables.sidecar.terminationMessagePath == '/dev/termination-log') && (!('imagePullPolicy' in variables.sidecar) || variables.sidecar.imagePullPolicy in ['Always', 'IfNotPresent', 'Never'])") | nindent 2 }}
  {{- include "fairlead.rnicValidation" (dict "field" "'and without fairlead.io/rnic-access: none whose processes others can reach by ' + variables.shared.join(', ')" "holds"
        "variables.shared.size() == 0") | nindent 2 }}
  {{- include "fairlead.rnicValidation" (dict "field" "'and without fairlead.io/rnic-access: none whose securityContext has group 0 in supplementalGroups or fsGroup'" "holds"
        "!(0 in variables.groups)") | nindent 2 }}
  {{- include "fairlead.rnicValidation" (dict "field" "'and an ephemeral container with targetContainerName fairlead-proxy'" "holds"
        "!has(object.spec.ephemeralContainers) || object.spec.ephemeralContainers.all(c, c.name != 'fairlead-proxy' && (!has(c.targetContainerName) || c.targetContainerName != 'fairlead-proxy'))") | nindent 2 }}
  {{- include "fairlead.rnicValidation" (dict "field" "'and annotations by which runtimes change the container fairlead-proxy: ' + variables.foreignAnnotations.join(', ')" "holds"
        "variables.foreignAnnotations.size() == 0") | nindent 2 }}
{{- end -}}

{{- /* Schedulers bind pods to nodes, and a binding may have annotations for its pod, which the policy above does not see. */ -}}
{{- define "fairlead.policy.rnic-binding" -}}
failurePolicy: Fail
matchConstraints:
  resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [bindings, pods/binding], scope: Namespaced}
  matchPolicy: Equivalent
  namespaceSelector: {}
  objectSelector: {}
validations:
  - expression: >-
      !has(object.metadata.annotations) || object.metadata.annotations.all(k, !k.startsWith('fairlead.io/') && !({{ include "fairlead.reachesSidecar" "k" }}))
    messageExpression: >-
      request.userInfo.username + ' may not write a binding with annotations that give its pod an RNIC or change its sidecar'
    reason: Forbidden
{{- end -}}

{{- /* The image has the dynamic loader, which runs any file that somebody can place in a container, as by a ConfigMap. */ -}}
{{- define "fairlead.policy.rnic-exec" -}}
failurePolicy: Fail
matchConstraints:
  resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CONNECT], resources: [pods/exec], scope: Namespaced}
  {{- include "fairlead.rnicMatch" . | nindent 2 }}
matchConditions:
  - name: sidecar
    expression: has(object.container) && object.container == 'fairlead-proxy'
validations:
  - expression: has(object.command) && object.command.size() > 0 && object.command[0] in ['fairleadctl', '/usr/local/bin/fairleadctl']
    messageExpression: >-
      request.userInfo.username + ' may not execute another command than fairleadctl in the container fairlead-proxy'
    reason: Forbidden
{{- end -}}
