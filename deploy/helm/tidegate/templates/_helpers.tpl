{{/* The name of the objects of a daemon. Call: (list $ "api") */}}
{{- define "tidegate.name" -}}
{{- $root := index . 0 -}}
{{- printf "%s-%s" $root.Release.Name (index . 1) | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* What selects the pods of a daemon. */}}
{{- define "tidegate.selector" -}}
app.kubernetes.io/name: tidegate-{{ index . 1 }}
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
{{- end -}}

{{- define "tidegate.labels" -}}
{{- $root := index . 0 -}}
{{ include "tidegate.selector" . }}
app.kubernetes.io/part-of: tidegate
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version }}
{{- end -}}

{{/* How a daemon reaches Redis. */}}
{{- define "tidegate.redis" -}}
{{- $redis := .Values.redis -}}
{{- if eq $redis.mode "url" }}
- name: TIDEGATE_POOL__DEFAULT__URL
  valueFrom:
    secretKeyRef: {name: {{ $redis.existingSecret }}, key: url}
{{- else }}
{{- if eq $redis.mode "sentinel" }}
- name: TIDEGATE_POOL__DEFAULT__SENTINELS
  value: {{ join "," $redis.sentinels | quote }}
- name: TIDEGATE_POOL__DEFAULT__MASTER_NAME
  value: {{ $redis.masterName | quote }}
- name: TIDEGATE_POOL__DEFAULT__SENTINEL_PASSWORD
  valueFrom:
    secretKeyRef: {name: {{ $redis.existingSecret }}, key: sentinel-password, optional: true}
{{- else }}
- name: TIDEGATE_POOL__DEFAULT__CLUSTER
  value: {{ join "," $redis.nodes | quote }}
{{- end }}
- name: TIDEGATE_POOL__DEFAULT__USERNAME
  valueFrom:
    secretKeyRef: {name: {{ $redis.existingSecret }}, key: username, optional: true}
- name: TIDEGATE_POOL__DEFAULT__PASSWORD
  valueFrom:
    secretKeyRef: {name: {{ $redis.existingSecret }}, key: password, optional: true}
{{- end }}
{{- end -}}

{{- define "tidegate.logs" -}}
- name: TIDEGATE_LOG__LEVEL
  value: {{ .Values.log.level | quote }}
- name: TIDEGATE_LOG__FORMAT
  value: {{ .Values.log.format | quote }}
{{- end -}}

{{/* What the chart sets itself. Of two variables with one name the last one counts. */}}
{{- define "tidegate.reserved" -}}
TIDEGATE_LISTEN TIDEGATE_ADMIN_LISTEN TIDEGATE_DRAIN_DELAY TIDEGATE_DRAIN_TIMEOUT TIDEGATE_ACCOUNTS__ADMIN TIDEGATE_LOG__LEVEL TIDEGATE_LOG__FORMAT
{{- range list "URL" "SENTINELS" "MASTER_NAME" "SENTINEL_PASSWORD" "CLUSTER" "USERNAME" "PASSWORD" }} TIDEGATE_POOL__DEFAULT__{{ . }}{{ end }}
{{- end -}}

{{/* The settings of a daemon. Call: (list "api" $values) */}}
{{- define "tidegate.settings" -}}
{{- $daemon := index . 0 -}}
{{- $reserved := include "tidegate.reserved" . | splitList " " -}}
{{- range $name, $value := (index . 1).settings }}
{{- if has $name $reserved }}
{{- fail (printf "%s.settings.%s: the chart sets this variable itself; use the values redis, log, api.existingSecret, api.drainDelaySeconds and api.drainTimeoutSeconds. Ports are fixed" $daemon $name) }}
{{- end }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- end -}}

{{/* Variables from a Secret, and files. */}}
{{- define "tidegate.files" -}}
{{- with .settingsSecret }}
envFrom:
  - secretRef: {name: {{ . }}}
{{- end }}
{{- with .volumeMounts }}
volumeMounts: {{ toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* What all pods have. Call: (list $ "api" $values) */}}
{{- define "tidegate.pod" -}}
{{- $root := index . 0 -}}
{{- $values := index . 2 -}}
automountServiceAccountToken: false
terminationGracePeriodSeconds: {{ $values.terminationGracePeriodSeconds }}
{{- with $root.Values.image.pullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with $values.volumes }}
volumes: {{ toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
topologySpreadConstraints:
  {{- range $key := list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
  - maxSkew: 1
    topologyKey: {{ $key }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{ include "tidegate.selector" (list $root (index $ 1)) | nindent 8 }}
  {{- end }}
{{- end -}}

{{/* What all containers have. */}}
{{- define "tidegate.container" -}}
{{- $root := index . 0 -}}
{{- $values := index . 2 -}}
name: {{ index . 1 }}
image: "{{ $root.Values.image.repository }}-{{ index . 1 }}:{{ $root.Values.image.tag | default $root.Chart.AppVersion }}"
imagePullPolicy: {{ $root.Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
resources: {{ toYaml $values.resources | nindent 2 }}
livenessProbe:
  httpGet: {path: /healthz, port: admin}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 3
readinessProbe:
  httpGet: {path: /readyz, port: admin}
  periodSeconds: 2
  timeoutSeconds: 5
  failureThreshold: 2
# Longer than connect_patience (30 s), for which a daemon waits for Redis.
startupProbe:
  httpGet: {path: /healthz, port: admin}
  periodSeconds: 1
  timeoutSeconds: 5
  failureThreshold: 60
{{- end -}}
