{#
  Compacts the Iceberg tables that this run has built:

    on-run-end: "{{ tidyberg.compact_built_tables(results) }}"

  It calls a SQL function that submits the job, `tidyberg_compact` by default on DuckDB. The variable `tidyberg_function`
  names another one. Where there is none, it says which command compacts the tables.
#}
{% macro compact_built_tables(results) %}
  {% if execute %}
    {% set tables = tidyberg.built_tables(results) %}
    {% set function = var('tidyberg_function', none) or adapter.dispatch('compact_function', 'tidyberg')() %}
    {% if not tables %}
      {% do log('tidyberg: this run has built no Iceberg table', info=true) %}
    {% elif function %}
      {% for table in tables %}
        {% do tidyberg.compact_table(function, table) %}
      {% endfor %}
    {% else %}
      {% do log('tidyberg: to compact what this run has built: tidyberg compact ' ~ tables | join(' '), info=true) %}
    {% endif %}
  {% endif %}
{% endmacro %}


{# Returns the names of Iceberg tables that were built without an error. `tidyberg compact --tables-from` has the same rule. #}
{% macro built_tables(results) %}
  {% set tables = [] %}
  {# on-run-end also runs after commands that build nothing, such as `dbt compile`, and their results are successful too. #}
  {% if flags.WHICH in ('run', 'build', 'seed', 'snapshot', 'retry') %}
    {% for result in results if result.status == 'success' and result.node.resource_type in ('model', 'seed', 'snapshot') %}
      {% if result.node.config.materialized not in ('view', 'ephemeral') and tidyberg.is_iceberg(result.node.config.to_dict()) %}
        {% do tables.append(result.node.schema ~ '.' ~ result.node.alias) %}
      {% endif %}
    {% endfor %}
  {% endif %}
  {{ return(tables) }}
{% endmacro %}


{# `meta: {tidyberg: true}` or `false` decides. Without it, the formats that adapters know decide. #}
{% macro is_iceberg(config) %}
  {% set chosen = (config.get('meta') or {}).get('tidyberg') %}
  {% if chosen is not none %}
    {{ return(chosen) }}
  {% endif %}
  {% set formats = [config.get('file_format'), config.get('table_format'), config.get('table_type')] %}
  {{ return('iceberg' in formats | map('string') | map('lower') | list) }}
{% endmacro %}


{% macro compact_table(function, table) %}
  {# dbt that is run again has another invocation, and makes another job. #}
  {% set key = 'dbt/' ~ invocation_id ~ '/' ~ local_md5(table) %}
  {% set query %}select {{ function }}('{{ table | replace("'", "''") }}', '{{ key }}'){% endset %}
  {% set answer = fromjson(run_query(query).columns[0].values()[0]) %}
  {% if answer.get('error') %}
    {# The tables are built, so the run succeeds. `dbt --warn-error` makes it fail. #}
    {% do exceptions.warn('tidyberg: ' ~ table ~ ': ' ~ answer['error']) %}
  {% else %}
    {% do log('tidyberg: ' ~ table ~ ': ' ~ answer['message'], info=true) %}
  {% endif %}
{% endmacro %}


{% macro default__compact_function() %}{{ return(none) }}{% endmacro %}

{# The plugin `tidyberg_dbt.duckdb_plugin` has it. Without the plugin, there is none. #}
{% macro duckdb__compact_function() %}
  {% set found = run_query("select count(*) from duckdb_functions() where function_name = 'tidyberg_compact'") %}
  {{ return('tidyberg_compact' if found.columns[0].values()[0] else none) }}
{% endmacro %}
