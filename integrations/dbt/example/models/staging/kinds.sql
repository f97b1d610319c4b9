{{ config(materialized='table') }}

select distinct kind from {{ ref('latest_events') }}
