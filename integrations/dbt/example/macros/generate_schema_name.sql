{# The schema of a model is the namespace of its Iceberg table, without the schema of the target before it. #}
{% macro generate_schema_name(custom_schema_name, node) %}{{ custom_schema_name or target.schema }}{% endmacro %}
