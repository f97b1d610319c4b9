{{ config(materialized='incremental', incremental_strategy='append') }}

select id, kind from {{ ref('latest_events') }}
