{{- /* Each policy's name, the account that it narrows, and the resource that the account may change. */ -}}
{{- define "fairlead.accountPolicies" -}}
{{- $injector := printf "system:serviceaccount:%s:%s" .Release.Namespace (include "fairlead.injector" .) -}}
{{- $node := printf "system:serviceaccount:%s:%s-node" .Release.Namespace .Release.Name -}}
{{- $uninstall := printf "system:serviceaccount:%s:%s-uninstall" .Release.Namespace .Release.Name -}}
{{- $policies := list -}}
{{- if .Values.accountPolicies -}}
{{- if eq .Values.injector.mode "webhook" -}}
{{- if eq .Values.injector.certs.mode "selfManaged" -}}
{{- $policies = append $policies (dict "name" "injector-webhook" "account" $injector
      "group" "admissionregistration.k8s.io" "resource" "mutatingwebhookconfigurations") -}}
{{- $policies = append $policies (dict "name" "injector-secret" "account" $injector "group" "" "resource" "secrets") -}}
{{- end -}}
{{- $policies = append $policies (dict "name" "injector-events" "account" $injector "group" "" "resource" "events") -}}
{{- end -}}
{{- if .Values.node.enabled -}}
{{- if .Values.node.label -}}
{{- $policies = append $policies (dict "name" "node-labels" "account" $node "group" "" "resource" "nodes") -}}
{{- end -}}
{{- if .Values.node.status -}}
{{- $policies = append $policies (dict "name" "node-reports" "account" $node "group" "" "resource" "configmaps") -}}
{{- end -}}
{{- if or .Values.node.repair (and .Values.node.status .Values.node.events) -}}
{{- $policies = append $policies (dict "name" "node-events" "account" $node "group" "" "resource" "events") -}}
{{- end -}}
{{- $policies = append $policies (dict "name" "uninstall" "account" $uninstall "group" "apps" "resource" "daemonsets") -}}
{{- end -}}
{{- end -}}
{{- toJson $policies -}}
{{- end -}}

{{- /* "true" if a pool gets its RNICs from fairlead-node. */ -}}
{{- define "fairlead.givesRnics" -}}
{{- $gives := false -}}
{{- range .Values.nodePools }}{{ if eq (.rnicAccess | default $.Values.node.rnicAccess) "nri" }}{{ $gives = true }}{{ end }}{{ end -}}
{{ and .Values.node.enabled $gives }}
{{- end -}}

{{- /* All policies of the chart. */ -}}
{{- define "fairlead.policies" -}}
{{- $policies := include "fairlead.accountPolicies" . | fromJsonArray -}}
{{- if eq (include "fairlead.givesRnics" .) "true" -}}
{{- range list "rnic" "rnic-binding" "rnic-exec" }}{{ $policies = append $policies (dict "name" .) }}{{ end -}}
{{- end -}}
{{- toJson $policies -}}
{{- end -}}

{{- /* The spec of a policy, of (list root policy). All defaults of the API server are written, so that a digest of the spec
       is that of the object in the cluster. */ -}}
{{- define "fairlead.policySpec" -}}
{{- $root := index . 0 }}{{ $policy := index . 1 -}}
failurePolicy: Fail
{{- if hasKey $policy "account" }}
matchConstraints:
  matchPolicy: Equivalent
  namespaceSelector: {}
  objectSelector: {}
  resourceRules:
    - {apiGroups: [{{ $policy.group | quote }}], apiVersions: ["*"], operations: ["*"], resources: [{{ $policy.resource }}, "{{ $policy.resource }}/*"], scope: "*"}
matchConditions:
  - name: account
    expression: request.userInfo.username == {{ squote $policy.account }}
{{ include (printf "fairlead.policy.%s" $policy.name) $policy }}
{{- else }}
{{ include (printf "fairlead.policy.%s" $policy.name) $root }}
{{- end }}
{{- end -}}

{{- /* For the annotation that tells fairleadctl check which policies there are, with a digest of each: NAME=SHA256,... */ -}}
{{- define "fairlead.policyDigests" -}}
{{- $digests := list -}}
{{- range include "fairlead.policies" . | fromJsonArray -}}
{{- $digests = append $digests (printf "%s-%s=%s" (include "fairlead.clusterName" $) .name (include "fairlead.policySpec" (list $ .) | fromYaml | toJson | sha256sum)) -}}
{{- end -}}
{{ join "," $digests }}
{{- end -}}

{{- /* A validation: an expression, and what the refusal says the account may not do. */ -}}
{{- define "fairlead.validation" -}}
- expression: >-
    {{ .holds | replace "\n" " " }}
  message: {{ printf "%s may not change %s" .account .field | quote }}
  reason: Forbidden
{{- end -}}

{{- /* True if maps `one` and `other` are the same except for the keys of a list. */ -}}
{{- define "fairlead.sameBut" -}}
dyn({{ .one }}).all(k, k in [{{ .but }}] || (k in dyn({{ .other }}) && dyn({{ .one }})[k] == dyn({{ .other }})[k]))
&& dyn({{ .other }}).all(k, k in [{{ .but }}] || k in dyn({{ .one }}))
{{- end -}}

{{- /* managedFields, resourceVersion and generation are the API server's. */ -}}
{{- define "fairlead.sameMetadata" -}}
{{ include "fairlead.sameBut" (dict "one" "object.metadata" "other" "oldObject.metadata" "but" (printf "'managedFields', 'resourceVersion', 'generation'%s" .but)) }}
{{- end -}}

{{- /* The node of the token, which the API server takes from the pod that the token is bound to. */ -}}
{{- define "fairlead.tokenNode" -}}
- name: node
  expression: >-
    has(request.userInfo.extra) && 'authentication.kubernetes.io/node-name' in request.userInfo.extra
    ? request.userInfo.extra['authentication.kubernetes.io/node-name'][0] : ''
{{- end -}}

{{- define "fairlead.policy.injector-webhook" -}}
validations:
  {{- include "fairlead.validation" (dict "account" .account "field" "a webhook configuration except by an update" "holds" "request.operation == 'UPDATE'") | nindent 2 }}
  {{- include "fairlead.validation" (dict "account" .account "field" "metadata of a webhook configuration" "holds"
        (include "fairlead.sameMetadata" (dict "but" ""))) | nindent 2 }}
  {{- include "fairlead.validation" (dict "account" .account "field" "the list of webhooks" "holds"
        "has(object.webhooks) && has(oldObject.webhooks) && object.webhooks.map(w, w.name) == oldObject.webhooks.map(w, w.name)") | nindent 2 }}
  {{- include "fairlead.validation" (dict "account" .account "field" "fields of a webhook except clientConfig.caBundle" "holds"
        (printf "has(object.webhooks) && has(oldObject.webhooks) && object.webhooks.all(w, oldObject.webhooks.exists_one(o, o.name == w.name && %s && %s))"
          (include "fairlead.sameBut" (dict "one" "w" "other" "o" "but" "'clientConfig'"))
          (include "fairlead.sameBut" (dict "one" "w.clientConfig" "other" "o.clientConfig" "but" "'caBundle'")))) | nindent 2 }}
  {{- include "fairlead.validation" (dict "account" .account "field" "clientConfig.caBundle to more than 64 KiB" "holds"
        "!has(object.webhooks) || object.webhooks.all(w, !has(w.clientConfig.caBundle) || w.clientConfig.caBundle.size() <= 65536)") | nindent 2 }}
{{- end -}}

{{- define "fairlead.policy.injector-secret" -}}
validations:
  {{- include "fairlead.validation" (dict "account" .account "field" "a Secret except by an update" "holds" "request.operation == 'UPDATE'") | nindent 2 }}
  {{- include "fairlead.validation" (dict "account" .account "field" "metadata of a Secret" "holds"
        (include "fairlead.sameMetadata" (dict "but" ""))) | nindent 2 }}
  {{- include "fairlead.validation" (dict "account" .account "field" "fields of a Secret except data" "holds"
        (include "fairlead.sameBut" (dict "one" "object" "other" "oldObject" "but" "'metadata', 'data'"))) | nindent 2 }}
  {{- include "fairlead.validation" (dict "account" .account "field" "data except ca.crt, ca.key, tls.crt and tls.key" "holds"
        "!has(object.data) || object.data.all(k, k in ['ca.crt', 'ca.key', 'tls.crt', 'tls.key'])") | nindent 2 }}
{{- end -}}

{{- /* Events in the name of one program. The API server itself requires that an Event is in the namespace of its object. */ -}}
{{- define "fairlead.eventValidations" -}}
{{- include "fairlead.validation" (dict "account" .account "field" "an existing Event" "holds" "request.operation == 'CREATE'") }}
{{ include "fairlead.validation" (dict "account" .account "field" (printf "source.component to another than %s" .component) "holds"
     (printf "has(object.source) && has(object.source.component) && object.source.component == '%s' && (!has(object.reportingComponent) || object.reportingComponent in ['', '%s']) && (!has(object.reportingInstance) || object.reportingInstance == '')" .component .component)) }}
{{ include "fairlead.validation" (dict "account" .account "field" (printf "reason to another than %s" (join ", " .reasons)) "holds"
     (printf "has(object.reason) && object.reason in %s" (toJson .reasons | replace "\"" "'"))) }}
{{ include "fairlead.validation" (dict "account" .account "field" "type, count or message of an Event to another than its program writes" "holds"
     "has(object.type) && object.type in ['Normal', 'Warning'] && has(object.count) && object.count == 1 && (!has(object.message) || object.message.size() <= 1024)") }}
{{ include "fairlead.validation" (dict "account" .account "field" "metadata of an Event except generateName" "holds"
     (printf "has(object.metadata.generateName) && object.metadata.generateName == '%s.' && object.metadata.name.matches('^%s[.][a-z0-9]{1,10}$') && !has(object.metadata.labels) && !has(object.metadata.annotations) && !has(object.metadata.ownerReferences) && !has(object.metadata.finalizers)" .component .component)) }}
{{ include "fairlead.validation" (dict "account" .account "field" "other fields of an Event than its program writes" "holds"
     "dyn(object).all(k, k in ['apiVersion', 'kind', 'metadata', 'involvedObject', 'type', 'reason', 'message', 'source', 'firstTimestamp', 'lastTimestamp', 'count', 'reportingComponent', 'reportingInstance', 'eventTime']) && (!('eventTime' in dyn(object)) || dyn(object).eventTime == null)") }}
{{ include "fairlead.validation" (dict "account" .account "field" "involvedObject to another than a short reference" "holds"
     "dyn(object.involvedObject).all(k, k in ['apiVersion', 'kind', 'name', 'namespace', 'uid'] && dyn(object.involvedObject)[k].size() <= 253) && dyn(object.source).all(k, k in ['component', 'host'] && dyn(object.source)[k].size() <= 253)") }}
{{- end -}}

{{- define "fairlead.policy.injector-events" -}}
validations:
  {{- include "fairlead.eventValidations" (dict "account" .account "component" "fairlead-injector" "reasons" (list "FairleadNotInjected")) | nindent 2 }}
  {{- include "fairlead.validation" (dict "account" .account "field" "source.host of an Event" "holds"
        "!has(object.source) || !has(object.source.host) || object.source.host == ''") | nindent 2 }}
  {{- include "fairlead.validation" (dict "account" .account "field" "involvedObject to another than a pod or its controller" "holds"
        "has(object.involvedObject.kind) && !(object.involvedObject.kind in ['Node', 'Secret', 'Namespace', 'ServiceAccount', 'ConfigMap'])") | nindent 2 }}
{{- end -}}

{{- define "fairlead.policy.node-events" -}}
variables:
  {{- include "fairlead.tokenNode" . | nindent 2 }}
validations:
  {{- include "fairlead.eventValidations" (dict "account" .account "component" "fairlead-node"
        "reasons" (list "FairleadRepaired" "FairleadNotRepaired" "FairleadFallback" "FairleadHandOver")) | nindent 2 }}
  {{- include "fairlead.validation" (dict "account" .account "field" "source.host to another node than that of its token" "holds"
        "variables.node != '' && has(object.source) && has(object.source.host) && object.source.host == variables.node") | nindent 2 }}
  {{- include "fairlead.validation" (dict "account" .account "field" "involvedObject to another kind than Pod" "holds"
        "has(object.involvedObject.kind) && object.involvedObject.kind == 'Pod' && has(object.involvedObject.apiVersion) && object.involvedObject.apiVersion == 'v1'") | nindent 2 }}
{{- end -}}

{{- define "fairlead.policy.node-labels" -}}
variables:
  {{- include "fairlead.tokenNode" . | nindent 2 }}
  - name: labels
    expression: "has(object.metadata.labels) ? dyn(object.metadata.labels) : dyn({})"
  - name: before
    expression: "has(oldObject.metadata.labels) ? dyn(oldObject.metadata.labels) : dyn({})"
  - name: own
    expression: "variables.labels.map(k, k).filter(k, k == 'fairlead.io/ready' || k.startsWith('fairlead.io/pnet.'))"
validations:
  {{- include "fairlead.validation" (dict "account" .account "field" "a node except by an update" "holds" "request.operation == 'UPDATE' && (!has(request.subResource) || request.subResource == '')") | nindent 2 }}
  {{- include "fairlead.validation" (dict "account" .account "field" "another node than that of its token" "holds"
        "variables.node != '' && object.metadata.name == variables.node") | nindent 2 }}
  {{- include "fairlead.validation" (dict "account" .account "field" "labels of a node except fairlead.io/ready and fairlead.io/pnet.ID" "holds"
"variables.own.size() <= 65 && variables.own.all(k, (k == 'fairlead.io/ready' || k.matches('^fairlead[.]io/pnet[.][A-Za-z0-9]{1,16}$')) && variables.labels[k] == 'true') && variables.labels.all(k, k in variables.own || (k in variables.before && variables.before[k] == variables.labels[k])) && variables.before.all(k, k in variables.labels || k == 'fairlead.io/ready' || k.startsWith('fairlead.io/pnet.'))") | nindent 2 }}
  {{- include "fairlead.validation" (dict "account" .account "field" "metadata of a node except its labels" "holds"
        (include "fairlead.sameMetadata" (dict "but" ", 'labels'"))) | nindent 2 }}
  {{- include "fairlead.validation" (dict "account" .account "field" "spec or status of a node" "holds"
        (include "fairlead.sameBut" (dict "one" "object" "other" "oldObject" "but" "'metadata'"))) | nindent 2 }}
{{- end -}}

{{- define "fairlead.policy.node-reports" -}}
variables:
  {{- include "fairlead.tokenNode" . | nindent 2 }}
validations:
  {{- include "fairlead.validation" (dict "account" .account "field" "a ConfigMap except by creation and update" "holds" "request.operation in ['CREATE', 'UPDATE']") | nindent 2 }}
  {{- include "fairlead.validation" (dict "account" .account "field" "a ConfigMap that is not the report of the node of its token" "holds"
        "variables.node != '' && object.metadata.name == 'fairlead-node-' + variables.node") | nindent 2 }}
  {{- include "fairlead.validation" (dict "account" .account "field" "data of a report except status.json" "holds"
        "(!has(object.data) || object.data.all(k, k == 'status.json' && object.data[k].size() <= 655360)) && !has(object.binaryData) && (!has(object.immutable) || !object.immutable)") | nindent 2 }}
  {{- include "fairlead.validation" (dict "account" .account "field" "labels, annotations or finalizers of a report" "holds"
        "!has(object.metadata.annotations) && !has(object.metadata.finalizers) && has(object.metadata.labels) && object.metadata.labels.size() == 2 && 'app.kubernetes.io/name' in object.metadata.labels && object.metadata.labels['app.kubernetes.io/name'] == 'fairlead' && 'app.kubernetes.io/component' in object.metadata.labels && object.metadata.labels['app.kubernetes.io/component'] == 'node-status'") | nindent 2 }}
  {{- include "fairlead.validation" (dict "account" .account "field" "ownerReferences to another object than its node" "holds"
        "!has(object.metadata.ownerReferences) || (object.metadata.ownerReferences.size() <= 1 && object.metadata.ownerReferences.all(o, o.apiVersion == 'v1' && o.kind == 'Node' && o.name == variables.node && !has(o.controller) && !has(o.blockOwnerDeletion)))") | nindent 2 }}
{{- end -}}

{{- define "fairlead.policy.uninstall" -}}
variables:
  - name: annotations
    expression: "has(object.metadata.annotations) ? dyn(object.metadata.annotations) : dyn({})"
  - name: before
    expression: "has(oldObject.metadata.annotations) ? dyn(oldObject.metadata.annotations) : dyn({})"
validations:
  {{- include "fairlead.validation" (dict "account" .account "field" "a DaemonSet except by an update" "holds" "request.operation == 'UPDATE' && (!has(request.subResource) || request.subResource == '')") | nindent 2 }}
  {{- /* The API server counts changes of the template in an annotation. */}}
  {{- include "fairlead.validation" (dict "account" .account "field" "metadata of a DaemonSet" "holds"
        (printf "%s && %s" (include "fairlead.sameMetadata" (dict "but" ", 'annotations'"))
          (include "fairlead.sameBut" (dict "one" "variables.annotations" "other" "variables.before"
            "but" "'deprecated.daemonset.template.generation'")))) | nindent 2 }}
  {{- include "fairlead.validation" (dict "account" .account "field" "fields of a DaemonSet except updateStrategy.rollingUpdate.maxUnavailable and the containers of its pods" "holds"
        (printf "%s && %s && %s && %s && %s"
          (include "fairlead.sameBut" (dict "one" "object.spec" "other" "oldObject.spec" "but" "'template', 'updateStrategy'"))
          (include "fairlead.sameBut" (dict "one" "object.spec.updateStrategy" "other" "oldObject.spec.updateStrategy" "but" "'rollingUpdate'"))
          (include "fairlead.sameBut" (dict "one" "object.spec.updateStrategy.rollingUpdate" "other" "oldObject.spec.updateStrategy.rollingUpdate" "but" "'maxUnavailable'"))
          (include "fairlead.sameBut" (dict "one" "object.spec.template" "other" "oldObject.spec.template" "but" "'spec'"))
          (include "fairlead.sameBut" (dict "one" "object.spec.template.spec" "other" "oldObject.spec.template.spec" "but" "'containers'")))) | nindent 2 }}
  {{- include "fairlead.validation" (dict "account" .account "field" "containers except by the variable FAIRLEAD_LEAVE" "holds"
        (printf "object.spec.template.spec.containers.map(c, c.name) == oldObject.spec.template.spec.containers.map(c, c.name) && object.spec.template.spec.containers.all(c, oldObject.spec.template.spec.containers.exists_one(o, o.name == c.name && %s && (has(c.env) ? c.env : []).filter(e, e.name != 'FAIRLEAD_LEAVE') == (has(o.env) ? o.env : []).filter(e, e.name != 'FAIRLEAD_LEAVE'))) && object.spec.template.spec.containers.all(c, !has(c.env) || c.env.all(e, e.name != 'FAIRLEAD_LEAVE' || (has(e.value) && e.value == 'true')))"
          (include "fairlead.sameBut" (dict "one" "c" "other" "o" "but" "'env'")))) | nindent 2 }}
{{- end -}}
