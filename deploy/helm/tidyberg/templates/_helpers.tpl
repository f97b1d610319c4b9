{{- define "tidyberg.name" -}}
{{- if contains .Chart.Name .Release.Name -}}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{- else -}}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" }}{{- end -}}
{{- end -}}

{{- define "tidyberg.labels" -}}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{ include "tidyberg.selector" . }}
{{- end -}}

{{- define "tidyberg.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "tidyberg.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "tidyberg.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{- define "tidyberg.checks" -}}
{{- $several := or (gt (int .Values.replicas) 1) .Values.autoscaling.enabled -}}
{{- if and $several (not .Values.redis.enabled) (not .Values.redis.urlSecret) -}}
{{- fail "Several replicas share their jobs in Redis: set redis.enabled, or redis.urlSecret, or replicas to 1 without autoscaling." -}}
{{- end -}}
{{- if and .Values.redis.enabled .Values.redis.urlSecret -}}
{{- fail "redis.enabled and redis.urlSecret exclude each other: use one of them." -}}
{{- end -}}
{{- end -}}
