-- No statistics on what row-level security hides. The planner estimates before any policy is applied, and many comparison
-- operators are leakproof: for a bare EXPLAIN, it would look the constant up among every tenant's most common values and
-- say, by its row count, whether another tenant has it. Only chunk tables keep those of tenant_id, whose values stand in
-- the partitions' names anyway, and without which a tenant's rows would be guessed at a fraction of what they are.

create function zeroth.forgo_statistics(in_table regclass) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  changes text;
begin
  select string_agg(format('alter column %I set statistics 0', a.attname), ', ' order by a.attnum) into changes
  from pg_attribute a
  join pg_class c on c.oid = a.attrelid
  where a.attrelid = in_table and a.attnum > 0 and not a.attisdropped
    and not (a.attname = 'tenant_id' and c.relname ~ '^chunk_[0-9]+(_t[0-9]+)?$');
  execute format('alter table only %s %s', in_table, changes);
end
$$;
comment on function zeroth.forgo_statistics(regclass) is
  'ANALYZE gathers nothing from now on about the columns of this one table. What it gathered before, it leaves.';
revoke all on function zeroth.forgo_statistics(regclass) from public;

create or replace function zeroth.ensure_chunk_set(in_name text, in_dimension int) returns int
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  set_id int;
begin
  perform pg_advisory_xact_lock(hashtextextended('zeroth.ensure_chunk_set', 0));
  select s.chunk_set_id into set_id from zeroth.chunk_set s where s.name = in_name and s.dimension = in_dimension;
  if set_id is not null then
    return set_id;
  end if;
  insert into zeroth.chunk_set (name, dimension) values (in_name, in_dimension) returning chunk_set_id into set_id;
  execute format($ddl$
    create table zeroth.chunk_%1$s (
      tenant_id int not null,
      chunk_id bigint not null,
      chunk_hash bytea not null,
      document_id text not null,
      document_version text not null,
      ordinal int not null,
      char_start int not null,
      char_end int not null,
      page_first int,
      page_last int,
      pages_real boolean not null,
      section_path text not null,
      token_count int not null,
      text text not null,
      tsv tsvector generated always as (to_tsvector('pg_catalog.english'::regconfig, text)) stored,
      embedding %2$s.vector(%3$s) not null,
      index_build_id int not null,
      primary key (tenant_id, chunk_id)
    ) partition by list (tenant_id)
  $ddl$, set_id, zeroth.vector_schema(), in_dimension);
  -- In line, an exact scan reads the vectors from the heap alone; out of line, it follows a pointer per row. Above this
  -- size a row would not fit its page.
  if in_dimension <= 1800 then
    execute format('alter table zeroth.chunk_%s alter column embedding set storage plain', set_id);
  end if;
  perform zeroth.forgo_statistics(format('zeroth.chunk_%s', set_id)::regclass);
  execute format('alter table zeroth.chunk_%s enable row level security', set_id);
  execute format('alter table zeroth.chunk_%s force row level security', set_id);
  execute format($ddl$
    create policy app_reads on zeroth.chunk_%s for select to zeroth_app
      using (tenant_id = any ((select zeroth.permitted_tenants())::int[]))
  $ddl$, set_id);
  execute format($ddl$
    create policy loader_keeps on zeroth.chunk_%s to zeroth_loader
      using (tenant_id = (select zeroth.loading_tenant()))
      with check (tenant_id = (select zeroth.loading_tenant()))
  $ddl$, set_id);
  execute format('grant select on zeroth.chunk_%s to zeroth_app', set_id);
  execute format('grant select, insert, delete on zeroth.chunk_%s to zeroth_loader', set_id);
  return set_id;
end
$$;

create or replace function zeroth.stage_partition(in_set int, in_tenant int) returns text
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  child text := zeroth.partition_name(in_set, in_tenant);
begin
  perform zeroth.require_known(in_set, in_tenant);
  if zeroth.partition_exists(in_set, in_tenant) then
    raise exception 'partition % is attached already', child using errcode = 'ZA003';
  end if;
  -- Without indexes: they are built after COPY. The check equals the partition bound, which spares ATTACH its scan.
  execute format(
    'create table zeroth_staging.%1$I (like zeroth.%2$I including all excluding indexes, '
    'constraint %1$s_bound check (tenant_id = %3$s))',
    child, format('chunk_%s', in_set), in_tenant);
  -- LIKE does not copy it, and autovacuum analyses partitions.
  perform zeroth.forgo_statistics(format('zeroth_staging.%I', child)::regclass);
  -- COPY FROM is refused where row-level security binds the caller; attach_partition turns it on.
  execute format('grant insert on zeroth_staging.%I to zeroth_loader', child);
  return child;
end
$$;

-- What there is already: ANALYZE leaves the statistics of a column with target 0 as they were. PostgreSQL 18 can clear
-- them; before it, an owner's only way is to declare each column's type anew. That is refused for the source of a
-- generated column, so `tsv` is made again, which rewrites the table and its indexes: done only where something is there.
do $$
declare
  tables regclass[];
  chosen regclass;
  child record;
  stale boolean;
  changes text;
begin
  select array_agg(c.oid::regclass order by c.oid) into tables
  from pg_class c
  join pg_namespace n on n.oid = c.relnamespace
  where c.relkind in ('r', 'p')
    and (n.nspname = 'zeroth' and (c.relname ~ '^chunk_[0-9]+(_t[0-9]+)?$'
      or c.relname in ('tenant', 'index_build', 'retired_partition'))
      or n.nspname = 'zeroth_acl' and c.relname = 'grant_');
  foreach chosen in array tables loop
    perform zeroth.forgo_statistics(chosen);
  end loop;

  if current_setting('server_version_num')::int >= 180000 then
    execute $clear$
      select pg_clear_attribute_stats(n.nspname::text, c.relname::text, a.attname::text, inherited)
      from pg_attribute a
      join pg_class c on c.oid = a.attrelid
      join pg_namespace n on n.oid = c.relnamespace
      cross join (values (false), (true)) i (inherited)
      where a.attrelid = any ($1) and a.attnum > 0 and not a.attisdropped and a.attstattarget = 0
    $clear$ using tables;
    return;
  end if;

  foreach chosen in array tables loop
    continue when (select c.relispartition from pg_class c where c.oid = chosen);
    -- The view shows statistics only where no policy binds the reader.
    stale := false;
    for child in select i.relid::regclass as name from pg_partition_tree(chosen) i
      union select chosen
    loop
      execute format('alter table only %s no force row level security', child.name);
      stale := stale or exists (
        select from pg_stats s
        join pg_class c on c.relname = s.tablename
        join pg_namespace n on n.oid = c.relnamespace and n.nspname = s.schemaname
        where c.oid = child.name and s.attname <> 'tenant_id');
      execute format('alter table only %s force row level security', child.name);
    end loop;
    continue when not stale;
    -- tenant_id is named by policies, which bars it; outside chunk tables it says no more than the partitions' names.
    select string_agg(format('alter column %I type %s', a.attname, format_type(a.atttypid, a.atttypmod)), ', ')
    into changes
    from pg_attribute a
    where a.attrelid = chosen and a.attnum > 0 and not a.attisdropped and a.attname not in ('tenant_id', 'tsv');
    if exists (select from pg_attribute a where a.attrelid = chosen and a.attname = 'tsv' and not a.attisdropped) then
      changes := changes || ', drop column tsv, add column tsv tsvector '
        'generated always as (to_tsvector(''pg_catalog.english''::regconfig, text)) stored';
      -- Declared anew, a column is stored as its type is by default.
      if exists (select from pg_attribute a where a.attrelid = chosen and a.attname = 'embedding' and a.attstorage = 'p') then
        changes := changes || ', alter column embedding set storage plain';
      end if;
    end if;
    execute format('alter table %s %s', chosen, changes);
    for child in select i.relid::regclass as name from pg_partition_tree(chosen) i
      union select chosen
    loop
      perform zeroth.forgo_statistics(child.name);
    end loop;
  end loop;
end
$$;
