{{ config(materialized='view') }}

select range as id, 'kind ' || range % 3 as kind from range(10)
